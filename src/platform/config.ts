/**
 * @module Every setting in one table: `TASSIS_*` variables over an optional TOML file over defaults. The only reader of the environment.
 * A wrong value is a `ConfigError` with one sentence that names the setting, the value and what is allowed; `main` prints it and exits with 2.
 */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { hostname as systemHostname } from 'node:os'
import { resolve } from 'node:path'
import {
  checked,
  choice,
  flag,
  flagOr,
  formatSize,
  HOST_NAME,
  integer,
  isCidr,
  isHttpUrl,
  isRelayUrl,
  list,
  parseHostPort,
  type Setting,
  size,
  text,
} from './setting-kinds.ts'
import { GiB, KiB, MiB } from './units.ts'

export class ConfigError extends Error {}

/** What systemd says of the journal to those whose output it reads: device and inode of its socket. */
export const journalStream = (): string | undefined => process.env['JOURNAL_STREAM']

/** What a language model may be used for. */
const LLM_USES: readonly string[] = ['classification', 'insights', 'phishing']

const settings = {
  dataDir: text(
    './data',
    'Folder of the database, the message contents, the master key and the admin socket; made at the first start.',
    'a path',
  ),
  httpAddr: checked(
    '127.0.0.1:8080',
    'an address such as 127.0.0.1:8080 or [::]:8080',
    'Address and port of the HTTP API.',
    (v) => parseHostPort(v) !== undefined,
  ),
  publicUrl: checked(
    (o) => `http://${String(o['httpAddr'])}`,
    'a URL such as https://mail.example.com',
    'The URL under which clients and recipients reach the HTTP API.',
    isHttpUrl,
  ),
  hostname: checked(
    () => localHostName(),
    'a host name such as mail.example.com',
    'Name given in EHLO and expected as MX and return-path target; its PTR record should match.',
    (v) => HOST_NAME.test(v),
  ),
  delivery: choice(
    ['direct', 'relay', 'capture'],
    'direct',
    'direct: to the MX of each recipient; relay: everything to TASSIS_RELAY_URL; capture: nothing leaves, messages are kept for viewing.',
  ),
  relayUrl: {
    ...checked(
      '',
      'a URL such as smtp://user:password@smtp.example.com:587 or smtps://...:465',
      'Smarthost of delivery mode relay.',
      (v) => v === '' || isRelayUrl(v),
    ),
    secret: true,
  },
  relayTls: choice(
    ['opportunistic', 'required'],
    'required',
    'Whether the smarthost must offer TLS with a valid certificate (smtps:// always does).',
  ),
  dnsServers: list(
    'DNS servers to ask, in order; empty: those of the system.',
    'a comma list of addresses such as 127.0.0.1:53 or [::1]:53',
    (v) => {
      const server = parseHostPort(v, 53)
      return server !== undefined && isIP(server.host) !== 0
    },
  ),
  smtpPort: integer(25, 1, 65_535, 'Port on which receiving servers are reached.'),
  outboundIps: list(
    'Source addresses of outgoing SMTP; empty: the system chooses.',
    'a comma list of IP addresses',
    (v) => isIP(v) !== 0,
  ),
  ipv6: flag(
    false,
    'Whether receivers are also reached over IPv6; switch it on once the PTR record of the IPv6 address is right.',
  ),
  allowPrivateNetworks: flagOr(
    'loopback',
    false,
    'Whether mail and webhooks may go to private and loopback addresses; `loopback`: to this machine, and to no other such address. Only for tests and development.',
  ),
  memoryBudget: size(
    256 * MiB,
    16 * MiB,
    1024 * GiB,
    'Bound on all request bodies and messages in flight; over it clients get 503 with Retry-After.',
  ),
  masterKeyFile: text(
    '',
    'File of the master key (32 bytes, base64); default: master.key in the data folder, made at the first start.',
    'a path',
  ),
  masterKey: {
    ...text('', 'The master key itself (32 bytes, base64), in place of a file.', '32 bytes in base64'),
    secret: true,
  },
  trustedProxies: list(
    'Proxies whose X-Forwarded-For is believed.',
    'a comma list of addresses or networks such as 127.0.0.1 or 10.0.0.0/8',
    isCidr,
  ),
  logLevel: choice(['trace', 'debug', 'info', 'warn', 'error', 'silent'], 'info', 'Least severity that is logged.'),
  sendingUnverified: choice(
    ['sandbox', 'reject'],
    'sandbox',
    'Mail from a registered domain that never was verified: captured and shown (sandbox), or refused with 422.',
  ),
  idempotencyMismatch: choice(
    ['replay', 'conflict'],
    'replay',
    'A send whose idempotency key was used for other content: the first email again, marked as a mismatch (replay), or a 409.',
  ),
  workers: integer(2, 1, 64, 'Workers that compose, sign and hold SMTP connections; about one a core.'),
  connectionsPerSite: integer(10, 1, 1000, 'SMTP connections to one receiving site at the same time.'),
  messagesPerConnection: integer(100, 1, 100_000, 'Messages sent over one SMTP connection before it is closed.'),
  deliveryConcurrency: integer(
    500,
    1,
    10_000,
    'Messages in delivery at the same time, over all sites. An account has at most half of them.',
  ),
  connectionIdleSeconds: integer(5, 0, 300, 'How long an SMTP connection is kept for the next message of its site.'),
  retryExpiryHours: integer(48, 1, 240, 'How long a deferred message is retried before it bounces as expired.'),
  maxBodyBytes: size(40 * MiB, 64 * KiB, 1 * GiB, 'Largest HTTP request body.'),
  maxAttachmentBytes: size(25 * MiB, 0, 1 * GiB, 'Largest sum of the attachments of one email, decoded.'),
  maxRecipients: integer(50, 1, 1000, 'Most recipients (To, Cc and Bcc) of one email.'),
  maxHeaders: integer(50, 0, 1000, 'Most further headers of one email.'),
  maxHeaderOctets: integer(998, 78, 998, 'Longest line of a further header, with its name.'),
  maxTags: integer(20, 0, 1000, 'Most tags of one email.'),
  maxTagCharacters: integer(128, 1, 1000, 'Longest tag.'),
  maxMetadataBytes: size(16 * KiB, 0, 1 * MiB, 'Largest metadata of one email, as JSON.'),
  sendRatePerSecond: integer(
    100,
    1,
    1_000_000,
    'Send requests a second of one account, long-term; plan unlimited has no bound.',
  ),
  sendBurst: integer(1000, 1, 1_000_000, 'Send requests that an account may make at once.'),
  workPerSecond: integer(
    20_000,
    0,
    100_000_000,
    'Work that the requests of one account with its sub-accounts may cause a second, long-term: recipients accepted, rows written or read, and 4 KiB of bodies are 1 each; 0: no bound.',
  ),
  workBurst: integer(200_000, 1000, 1_000_000_000, 'Work that they may cause at once.'),
  sandboxPerDay: integer(
    10_000,
    0,
    1_000_000_000,
    'Recipients of sandbox mail of one account with its sub-accounts in a day (UTC).',
  ),
  webhookConcurrency: integer(
    10,
    1,
    1000,
    'Requests to one webhook at the same time; at most five while it takes over a second, one while it does not answer well.',
  ),
  webhookHistoryDays: integer(30, 1, 3650, 'Age at which finished webhook deliveries leave the history.'),
  compatHeaderPrefixes: list(
    'Further prefixes under which the X-Service-* headers of webhooks are repeated.',
    'a comma list of header prefixes such as X-Example',
    (v) => /^[A-Za-z][A-Za-z0-9-]{0,39}$/.test(v),
  ),
  extraCaFile: text(
    '',
    'PEM file of further certificate authorities that webhook endpoints may have their certificates from.',
    'a path',
  ),
  trackingDays: integer(
    730,
    1,
    36_500,
    'How long after its email an open or click is still counted; links lead on for good.',
  ),
  contentDays: integer(90, 1, 36_500, 'How long bodies and attachments of sent mail are kept.'),
  contentMaxBytes: size(
    20 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of bodies and attachments of sent mail; accounts above their share lose their oldest; 0: no bound.',
  ),
  eventsDays: integer(365, 1, 36_500, 'How long events are kept in the event log.'),
  eventsMaxBytes: size(
    10 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of the event log; accounts above their share lose their oldest; 0: no bound.',
  ),
  inboundDays: integer(365, 1, 36_500, 'How long received mail is kept, in agent mailboxes as well.'),
  inboundMaxBytes: size(
    20 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of received mail; accounts above their share lose their oldest; 0: no bound.',
  ),
  logsDays: integer(
    730,
    1,
    36_500,
    'How long it is kept which emails were sent and what became of each, and operations.',
  ),
  logsMaxBytes: size(
    20 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of that; accounts above their share lose their oldest; 0: no bound.',
  ),
  auditDays: integer(1095, 30, 36_500, 'How long entries of the audit log are kept.'),
  trackingPlans: list(
    'Plans with open and click tracking: a comma list of their names, or all.',
    'a comma list of names of plans, or all',
    // Which plans there are is checked by accounts/plans.ts.
    () => true,
    ['all'],
  ),
  inboundAddr: checked(
    '',
    'an address such as 0.0.0.0:25 or [::]:25, or nothing',
    'Address and port at which mail comes in: inbound mail, bounces, complaints; empty: none comes in.',
    (v) => v === '' || parseHostPort(v) !== undefined,
  ),
  tlsCertFile: text(
    '',
    'PEM file of the certificate chain for STARTTLS, read again when it changes; empty: a self-signed certificate is made.',
    'a path',
  ),
  tlsKeyFile: text('', 'PEM file of the key of TASSIS_TLS_CERT_FILE.', 'a path'),
  inboundMaxMessageBytes: size(40 * MiB, 64 * KiB, 1 * GiB, 'Largest message that is taken in (SIZE, RFC 1870).'),
  inboundMaxRecipients: integer(100, 1, 1000, 'Most recipients of one incoming message.'),
  inboundConnections: integer(500, 1, 10_000, 'Incoming SMTP connections at the same time.'),
  inboundConnectionsPerIp: integer(20, 1, 10_000, 'Incoming SMTP connections from one address at the same time.'),
  inboundMessagesPerMinute: integer(
    600,
    1,
    1_000_000,
    'Messages that one address, of IPv6 a /64, may hand in within a minute; a /56 four times as many, a /48 sixteen times.',
  ),
  inboundBytesPerHour: size(
    2 * GiB,
    1 * MiB,
    10_000 * GiB,
    'Octets that one address, of IPv6 a /64, may hand in within an hour; a /56 four times as many, a /48 sixteen times.',
  ),
  inboundRawDays: integer(30, 1, 3650, 'How long the raw form of a received message is kept.'),
  llmUrl: checked(
    '',
    'a URL such as http://127.0.0.1:11434/v1 or https://llm.example.com/v1, or nothing',
    'Base URL of an OpenAI-compatible API, for TASSIS_LLM_USES; empty: nothing is asked.',
    (v) => v === '' || isHttpUrl(v),
  ),
  llmUses: list(
    'What TASSIS_LLM_URL is used for: classification (of messages in agent mailboxes), insights (given figures only), phishing (given the text and links of mail that rules find suspicious).',
    'a comma list of classification, insights, phishing',
    (v) => LLM_USES.includes(v),
    ['classification', 'insights'],
  ),
  llmKey: { ...text('', 'API key for TASSIS_LLM_URL.', 'any text'), secret: true },
  llmModel: text('', 'Model to ask at TASSIS_LLM_URL.', 'the name of a model'),
  importMaxBytes: size(
    512 * MiB,
    1 * MiB,
    100 * GiB,
    'Largest CSV file of contacts that one import may bring; it lies in the data folder until it is imported.',
  ),
  confirmationDays: integer(7, 1, 365, 'How long the link of a confirmation email (double opt-in) works.'),
  confirmationsPerMinute: integer(
    600,
    1,
    1_000_000,
    'Confirmation emails a minute of one account for contacts that were added in bulk.',
  ),
  formPostsPerMinute: integer(
    10,
    1,
    1_000_000,
    'Posts to signup forms a minute from one address, of IPv6 a /64; a /56 may post four times and a /48 sixteen times as often.',
  ),
  formConfirmationsPerHour: integer(
    1000,
    1,
    1_000_000,
    'Confirmation and welcome emails an hour that posts to the signup forms of one account may cause; those to one form at most half of them.',
  ),
  formNetworkMailsPerHour: integer(
    60,
    1,
    1_000_000,
    'Confirmation and welcome emails an hour of one account that one address, of IPv6 a /64, may cause by posts to signup forms, of all accounts five times as many; a /56 four times and a /48 sixteen times as many.',
  ),
  formNetworkMailsPerDay: integer(
    300,
    1,
    1_000_000,
    'The same a day: confirmation and welcome emails of one account that one address may cause.',
  ),
  broadcastAhead: integer(
    1000,
    10,
    100_000,
    'Emails of one broadcast that wait in the mail queue at the same time, eight times as many where few sites hold most of them; the rest waits outside.',
  ),
  captureMaxBytes: size(
    64 * MiB,
    1 * MiB,
    100 * GiB,
    'Most bytes of captured messages; the account with most loses its oldest.',
  ),
  captureMaxHours: integer(72, 1, 8760, 'Age at which captured messages are removed.'),
  minFreeDisk: size(
    64 * MiB,
    0,
    1024 * GiB,
    'Free disk space under which everything that stores something new is refused with 507, so that accepted mail can still be finished.',
  ),
  planQuotaFree: integer(3000, 0, 2_147_483_647, 'Monthly recipients of plan free.'),
  planQuotaStarter: integer(10_000, 0, 2_147_483_647, 'Monthly recipients of plan starter.'),
  planQuotaPro: integer(100_000, 0, 2_147_483_647, 'Monthly recipients of plan pro.'),
  planQuotaBusiness: integer(500_000, 0, 2_147_483_647, 'Monthly recipients of plan business.'),
  planQuotaEnterprise: integer(2_000_000, 0, 2_147_483_647, 'Monthly recipients of plan enterprise.'),
  plans: list(
    'Limits and prices of plans that differ from the defaults: max_domains, max_templates, max_webhooks, max_contact_lists, max_sub_accounts, max_contacts, max_stored_mib, price_cents, stripe_price_id.',
    'a comma list of plan.field=value, such as free.max_domains=2 or pro.stripe_price_id=price_123',
    // Which plans and fields there are is checked by accounts/plans.ts.
    (v) => /^[a-z]+\.[a-z_]+=[\x21-\x7e]{1,200}$/.test(v),
  ),
  stripeKey: { ...text('', 'Secret API key of Stripe; empty: nobody is billed.', 'any text'), secret: true },
  stripeWebhookSecret: {
    ...text('', 'Signing secret of the Stripe webhook endpoint {public_url}/billing/stripe.', 'any text'),
    secret: true,
  },
  stripeUrl: checked(
    'https://api.stripe.com',
    'a URL such as https://api.stripe.com',
    'Where the API of Stripe is reached.',
    isHttpUrl,
  ),
  systemFrom: text(
    '',
    'Sender of mail of the service itself (invitations, password resets, notices), an address at a verified domain of an account here; empty: no-reply at the first verified domain of the oldest account.',
    'a mailbox such as Tassis <no-reply@example.com>',
  ),
  sessionDays: integer(14, 1, 365, 'How long a browser stays signed in without being used.'),
  loginsPerMinute: integer(
    10,
    1,
    100_000,
    'Attempts to sign in, or requests for a new password, a minute from one address, of IPv6 a /64 (a /56 has 4, a /48 16 times as many); from there for one user half of them.',
  ),
  abusePlans: list(
    'Plans whose accounts are paused by their figures: a comma list of their names, or all.',
    'a comma list of names of plans, or all',
    () => true,
    ['free', 'starter', 'pro', 'business', 'enterprise'],
  ),
  abuseBouncePercent: integer(
    10,
    1,
    100,
    'Hard bounces of 100 recipients delivered to or bounced, over 24 hours, at which an account is paused.',
  ),
  abuseComplaintsPerMille: integer(
    3,
    1,
    1000,
    'Complaints of 1,000 recipients delivered to, over 24 hours, at which an account is paused.',
  ),
  abuseMinimumVolume: integer(
    200,
    1,
    1_000_000,
    'Recipients delivered to or bounced in 24 hours below which the two rates pause nobody.',
  ),
  feedbackLoops: list(
    'Further feedback loops whose complaints count toward the pause of an account, when SPF or DKIM proves the sender: addresses, or domains that nobody else sends from.',
    'a comma list of addresses or domains in lower case, such as fbl@provider.example',
    (v) => /^(?:[^\s@A-Z]{1,64}@)?[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}$/.test(v),
  ),
  abuseContent: flag(true, 'Whether mail of accounts of TASSIS_ABUSE_PLANS is looked at for phishing.'),
  abuseDomainsPerHour: integer(
    20,
    1,
    1_000_000,
    'Domains registered by an account within an hour at which it is paused.',
  ),
  abuseKeysPerHour: integer(30, 1, 1_000_000, 'API keys made by an account within an hour at which it is paused.'),
  abuseSubAccountsPerHour: integer(
    20,
    1,
    1_000_000,
    'Sub-accounts made by an account within an hour at which it is paused.',
  ),
}

type Settings = typeof settings
export type SettingName = keyof Settings
/** The values of all settings, validated. */
export type Config = { readonly [K in SettingName]: NonNullable<ReturnType<Settings[K]['parse']>> }

export interface SettingReport {
  readonly name: SettingName
  readonly variable: string
  readonly tomlKey: string
  readonly value: string
  readonly source: 'environment' | 'file' | 'default'
  readonly doc: string
  readonly allowed: string
}

export interface LoadedConfig {
  readonly config: Config
  readonly report: readonly SettingReport[]
}

const SETTING_NAMES = Object.keys(settings) as SettingName[]
const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
const variableOf = (name: string): string => `TASSIS_${snakeCase(name).toUpperCase()}`

/**
 * Reads all settings. `environment` defaults to the process's; the TOML file is the one named by `TASSIS_CONFIG`, if any.
 * Throws ConfigError at the first value that is not allowed, and for variables or keys that no setting has.
 */
export function loadConfig(environment: Record<string, string | undefined> = process.env): LoadedConfig {
  const file = environment['TASSIS_CONFIG']
  const fromFile = file ? readToml(file) : {}
  const unknownKey = Object.keys(fromFile).find((key) => !SETTING_NAMES.some((name) => snakeCase(name) === key))
  if (unknownKey)
    throw new ConfigError(`${file}: there is no setting ${unknownKey}; \`tassis config\` lists all of them.`)
  const known = new Set(['TASSIS_CONFIG', ...SETTING_NAMES.map(variableOf)])
  const unknownVariable = Object.keys(environment).find((key) => key.startsWith('TASSIS_') && !known.has(key))
  if (unknownVariable)
    throw new ConfigError(`${unknownVariable}: there is no such setting; \`tassis config\` lists all of them.`)

  const values: Record<string, unknown> = {}
  const report: SettingReport[] = []
  for (const name of SETTING_NAMES) {
    const setting = settings[name] as Setting<unknown>
    const variable = variableOf(name)
    const tomlKey = snakeCase(name)
    const fromEnvironment = environment[variable]
    const source =
      fromEnvironment !== undefined && fromEnvironment !== ''
        ? 'environment'
        : fromFile[tomlKey] !== undefined
          ? 'file'
          : 'default'
    if (source === 'default') {
      values[name] = typeof setting.fallback === 'function' ? setting.fallback(values) : setting.fallback
    } else {
      const given = source === 'environment' ? fromEnvironment : fromFile[tomlKey]
      const value = setting.parse(given)
      if (value === undefined) {
        const where = source === 'environment' ? variable : `${tomlKey} in ${file}`
        throw new ConfigError(
          `${where} is ${setting.secret ? 'set to a value that is not allowed' : `"${String(given)}"`}; allowed is ${setting.allowed}.`,
        )
      }
      values[name] = value
    }
    report.push({
      name,
      variable,
      tomlKey,
      value: shown(setting, values[name]),
      source,
      doc: setting.doc,
      allowed: setting.allowed,
    })
  }
  const config = values as Config
  if (config.delivery === 'relay' && config.relayUrl === '') {
    throw new ConfigError(
      'TASSIS_DELIVERY is "relay" but TASSIS_RELAY_URL is not set; set it to a URL such as smtp://user:password@smtp.example.com:587.',
    )
  }
  return { config: { ...config, dataDir: resolve(config.dataDir) }, report }
}

function shown(setting: Setting<unknown>, value: unknown): string {
  if (setting.secret) return value === '' ? '' : '(set)'
  if (Array.isArray(value)) return value.join(',')
  return setting.allowed.startsWith('a size') ? formatSize(value as number) : String(value)
}

function readToml(path: string): Record<string, unknown> {
  let content: string
  try {
    content = readFileSync(path, 'utf8')
  } catch {
    throw new ConfigError(
      `TASSIS_CONFIG is "${path}", which cannot be read; give the path of a readable TOML file or unset it.`,
    )
  }
  try {
    return flattened(Bun.TOML.parse(content) as Record<string, unknown>)
  } catch (error) {
    throw new ConfigError(`${path} is not valid TOML: ${error instanceof Error ? error.message : String(error)}.`)
  }
}

/** `[sending] unverified = "reject"` and `sending_unverified = "reject"` are the same setting. */
function flattened(table: Record<string, unknown>, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(table).flatMap(([key, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(flattened(value as Record<string, unknown>, `${prefix}${key}_`))
        : [[`${prefix}${key}`, value]],
    ),
  )
}

function localHostName(): string {
  const name = systemHostname()
  return HOST_NAME.test(name) ? name : 'localhost'
}
