/**
 * @module All settings of the program, grouped by what an operator wants to do; docs/configuration.md has the same
 * groups. A setting is what operators of different services set differently; any other number is a constant beside the
 * code that uses it.
 */
import { isIP } from 'node:net'
import { hostname as systemHostname } from 'node:os'
import { parseRoleRule } from '#features/people/team/single-sign-on/grants.ts'
import { parseUuid } from '#platform/ids.ts'
import { parsePostgresUrl } from '#platform/replication/postgres-url.ts'
import {
  type Config,
  ConfigError,
  type LoadedConfig,
  readSettings,
  type SettingGroup,
  type SettingReport,
} from '#platform/settings/config.ts'
import { parseOutboundSource } from '#platform/settings/outbound-source.ts'
import { parseS3Url } from '#platform/settings/s3-url.ts'
import {
  checked,
  choice,
  flag,
  flagOr,
  HOST_NAME,
  integer,
  isCidr,
  isHttpUrl,
  isRelayUrl,
  list,
  optional,
  parseHostPort,
  path,
  type SettingValues,
  secret,
  size,
  text,
  withoutLogin,
} from '#platform/settings/setting-kinds.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { isLoopbackName } from '#protocols/dns/special-addresses.ts'

/** @param examples one of IPv4 and one of IPv6 */
const listenerAddress = (doc: string, examples: readonly [string, string]) =>
  optional(
    `an address such as ${examples.join(' or ')}, or nothing`,
    doc,
    (value) => parseHostPort(value) !== undefined,
  )

const smarthost = (doc: string) =>
  secret(optional('a URL such as smtp://user:password@smtp.example.com:587 or smtps://...:465', doc, isRelayUrl))

const serviceSettings = {
  dataDir: text(
    './data',
    'Folder of the database, the message contents, the master key and the admin socket; created at the first start.',
    'a path',
  ),
  httpAddr: checked(
    '127.0.0.1:8080',
    'an address such as 127.0.0.1:8080 or [::]:8080',
    'Address and port of the HTTP API.',
    (value) => parseHostPort(value) !== undefined,
  ),
  publicUrl: checked(
    (others) => `http://${String(others['httpAddr'])}`,
    'a URL such as https://mail.example.com',
    'The URL under which clients and recipients reach the HTTP API.',
    isHttpUrl,
    '`http://` and the HTTP address',
  ),
  hostname: checked(
    () => localHostName(),
    'a host name such as mail.example.com',
    'Name given in EHLO and expected as MX and return-path target; its PTR record should match.',
    (value) => HOST_NAME.test(value),
    "the machine's name",
  ),
  masterKeyFile: path(
    'File of the master key (32 bytes, base64; former keys below it); default: master.key in the data folder, created at the first start.',
  ),
  masterKey: secret(
    text(
      '',
      'The master key itself (32 bytes, base64), instead of a file; former keys follow after commas.',
      '32 bytes in base64',
    ),
  ),
  logLevel: choice(['trace', 'debug', 'info', 'warn', 'error', 'silent'], 'info', 'Minimum severity to log.'),
  metricsAddr: listenerAddress(
    'Address and port of `/metrics` for Prometheus, in plain HTTP and without a key: give it one that only Prometheus reaches; empty: none.',
    ['127.0.0.1:9464', '[::1]:9464'],
  ),
}

const clientSettings = {
  dashboard: flag(true, 'Whether the dashboard is served at /app, where people get who sign in.'),
  trustedProxies: list(
    'Proxies whose X-Forwarded-For is trusted.',
    'a comma-separated list of addresses or networks such as 127.0.0.1 or 10.0.0.0/8',
    isCidr,
  ),
  corsOrigins: list(
    'Origins whose pages may call the API with a key; a key in a page can be read by everyone who sees the page.',
    'a comma-separated list of origins such as https://example.com',
    (value) => URL.canParse(value) && new URL(value).origin === value,
  ),
  strictClients: list(
    'Clients that refuse fields or statuses which they do not know: beginnings of their User-Agent, or `-` for requests without one. Their answers have only the fields and statuses of the interface; `uncertain` becomes `sent`, and `rejected` becomes `failed`.',
    'beginnings of User-Agent headers, separated by commas',
    (prefix) => prefix.length <= 200,
  ),
  compatHeaderPrefixes: list(
    'Extra prefixes under which the X-Service-* headers of webhooks are repeated: those that the public clients of the interface read.',
    'a comma-separated list of header prefixes such as X-Example, or none',
    (value) => /^[A-Za-z][A-Za-z0-9-]{0,39}$/.test(value),
    ['X-Euromail'],
  ),
}

const certificateSettings = {
  httpsAddr: listenerAddress(
    'Address and port of the HTTP API over TLS, with the certificates of TASSIS_ACME_TERMS_AGREED or TASSIS_TLS_CERT_FILE; empty: none, a proxy has the certificates.',
    ['0.0.0.0:443', '[::]:443'],
  ),
  acmeTermsAgreed: flag(
    false,
    'Whether to get and renew certificates from TASSIS_ACME_URL; true means that you agree to the terms of service of that certificate authority.',
  ),
  acmeUrl: checked(
    'https://acme-v02.api.letsencrypt.org/directory',
    'an https URL',
    'Directory of the certificate authority (ACME, RFC 8555); one of your own needs its root in TASSIS_EXTRA_CA_FILE.',
    (value) => isHttpUrl(value) && value.startsWith('https:'),
  ),
  tlsCertFile: path(
    'PEM file of the certificate chain for SMTP and TASSIS_HTTPS_ADDR, reloaded when it changes; empty: that of TASSIS_ACME_TERMS_AGREED, else a self-signed one.',
  ),
  tlsKeyFile: path('PEM file of the key of TASSIS_TLS_CERT_FILE.'),
  extraCaFile: path('PEM file of additional certificate authorities for webhook endpoints and TASSIS_ACME_URL.'),
}

const sendingSettings = {
  delivery: choice(
    ['direct', 'relay', 'capture'],
    'direct',
    'direct: to the MX of each recipient; relay: everything to TASSIS_RELAY_URL; capture: nothing is sent, messages are stored for viewing.',
  ),
  relayUrl: smarthost(
    'Smarthost of delivery mode relay, and of providers whose route is "smarthost" (without it, these use TASSIS_OVERFLOW_URL).',
  ),
  relayTls: choice(
    ['opportunistic', 'required'],
    'required',
    'Whether the smarthost must offer TLS with a valid certificate (smtps:// always does).',
  ),
  overflowUrl: smarthost(
    'Smarthost for mail that would wait: for a suspended provider, or over the daily budget of a new address. Needs verified TLS unless TASSIS_RELAY_TLS says otherwise. Empty: such mail waits.',
  ),
  providersFile: path(
    'TOML file that overrides limits of receiving providers by name; see docs/delivery.md, "Limits of receiving providers".',
  ),
  retryExpiryHours: integer(48, 1, 240, 'How long a deferred message is retried before it bounces as expired.'),
  dane: choice(
    ['auto', 'on', 'off'],
    'auto',
    'Whether mail in delivery mode direct obeys the TLSA records of mail hosts (DANE, RFC 7672). auto: if all DNS servers are on this machine and validate DNSSEC; on: also with DNS servers elsewhere, over a network that nobody can tamper with.',
  ),
  domainConnect: checked(
    '',
    'two names such as example.com/mail, or nothing',
    'Provider id and service id of your Domain Connect template (contrib/domain-connect), which DNS providers must have; empty: no links.',
    (value) => /^(?:[\w.-]{1,100}\/[\w.-]{1,100})?$/.test(value),
  ),
  dkimRotateDays: integer(
    0,
    0,
    3650,
    'After how many days a domain gets new DKIM keys, which sign once somebody has published their records; 0: never.',
  ),
}

const addressSettings = {
  outboundIps: {
    ...list(
      'Source addresses of outgoing SMTP, each with the name that it gives in EHLO (its PTR record) if that is not TASSIS_HOSTNAME, its pool if only the accounts of that pool send from it, and the SOCKS5 proxy that has the address if this machine does not; empty: the system chooses.',
      'a comma-separated list of IP, IP=name, IP@pool or IP=name@pool, each perhaps with a proxy, such as 192.0.2.1=mail1.example.com@news or 192.0.2.9=mail9.example.com via socks5://user:password@10.0.0.2:1080 (in user and password, write characters other than letters and digits as in URLs: %40 for @, %2C for a comma)',
      (value) => parseOutboundSource(value) !== undefined,
    ),
    format: (items: readonly string[]) => items.map(withoutLogin).join(),
  },
  ipv6: flagOr(
    'auto',
    'auto',
    'Whether to connect to receivers over IPv6 as well, after their IPv4 addresses. auto: while the PTR record of our IPv6 address is right and SPF covers it; `tassis doctor` says what is missing.',
  ),
  warmUp: choice(
    ['off', 'broadcasts', 'all'],
    'broadcasts',
    'What a daily budget per provider limits while an outgoing address is new: broadcasts, or all mail. Mail over it goes to TASSIS_OVERFLOW_URL; without one, what is limited waits for the next day (UTC), and the rest is sent.',
  ),
}

const receivingSettings = {
  inboundAddr: listenerAddress(
    'Address and port of the SMTP listener for inbound mail, bounces and complaints; empty: no listener.',
    ['0.0.0.0:25', '[::]:25'],
  ),
  feedbackLoops: list(
    'Additional feedback loops whose complaints can pause an account if SPF or DKIM proves the sender: addresses, or domains with no other senders.',
    'a comma-separated list of lower-case addresses or domains, such as fbl@provider.example',
    (value) => /^(?:[^\s@A-Z]{1,64}@)?[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}$/.test(value),
  ),
}

const submissionSettings = {
  submissionAddr: listenerAddress(
    'Address and port for mail submission by SMTP with STARTTLS; empty: none. The certificate is that of inbound mail, TASSIS_TLS_CERT_FILE.',
    ['0.0.0.0:587', '[::]:587'],
  ),
  submissionTlsAddr: listenerAddress(
    'Address and port for mail submission by SMTP with TLS from the first octet; empty: none.',
    ['0.0.0.0:465', '[::]:465'],
  ),
}

const tenantSettings = {
  plans: list(
    'Limits and prices of plans that differ from the defaults: monthly_quota, tracking_enabled, abuse_watch, max_domains, max_templates, max_webhooks, max_contact_lists, max_sub_accounts, max_contacts, max_stored_mib, price_cents, stripe_price_id.',
    'a comma-separated list of plan.field=value, such as free.max_domains=2 or pro.stripe_price_id=price_123',
    // accounts/plans.ts checks the plans and fields.
    (value) => /^[a-z]+\.[a-z_]+=[\x21-\x7e]{1,200}$/.test(value),
  ),
  sendRatePerSecond: integer(
    100,
    1,
    1_000_000,
    'Send requests per second of one account, long-term; plan unlimited has no limit.',
  ),
  sendBurst: integer(1000, 1, 1_000_000, 'Send requests that an account may make in a burst.'),
  maxBodyBytes: size(
    40 * MiB,
    64 * KiB,
    1 * GiB,
    'Maximum size of an HTTP request body, and of a message that is received or submitted by SMTP (SIZE, RFC 1870).',
  ),
  maxAttachmentBytes: size(25 * MiB, 1, 1 * GiB, 'Maximum size of all attachments of an email, decoded.'),
  sendingUnverified: choice(
    ['sandbox', 'reject'],
    'sandbox',
    'Mail from a registered domain that was never verified: captured and shown (sandbox), or rejected with 422 (reject).',
  ),
  idempotencyMismatch: choice(
    ['replay', 'conflict'],
    'replay',
    'A send whose idempotency key was used for other content: returns the first email, marked as a mismatch (replay), or fails with 409 (conflict).',
  ),
}

const strangerSettings = {
  loginsPerMinute: integer(
    10,
    1,
    100_000,
    'Sign-in attempts, or requests for a new password, per minute from one IPv4 address or IPv6 /64. An IPv6 /56 gets 4 times as many, a /48 16 times. From one network, half as many may be for the same user.',
  ),
  formPostsPerMinute: integer(
    10,
    1,
    1_000_000,
    'Posts to signup forms per minute from one address, or for IPv6 one /64; a /56 may post four times and a /48 sixteen times as often.',
  ),
  inboundConnectionsPerIp: integer(20, 1, 10_000, 'Maximum concurrent inbound SMTP connections from one address.'),
  inboundMessagesPerMinute: integer(
    600,
    1,
    1_000_000,
    'Messages per minute from one IPv4 address or IPv6 /64, of 60 KiB on average over an hour; a /56 may send four times as many, a /48 sixteen times.',
  ),
}

const machineSettings = {
  workers: integer(2, 1, 64, 'Workers that compose, sign and hold SMTP connections; about one per core.'),
  memoryBudget: size(
    256 * MiB,
    16 * MiB,
    1024 * GiB,
    'Limit for all request bodies and messages in flight; above it clients get 503 with Retry-After.',
  ),
  minFreeDisk: size(
    64 * MiB,
    0,
    1024 * GiB,
    'Free disk space below which new data is refused with 507, so that accepted mail can still be processed.',
  ),
}

const retentionSettings = {
  contentDays: integer(90, 1, 36_500, 'How long bodies and attachments of sent mail are kept.'),
  eventsDays: integer(365, 1, 36_500, 'How long events are kept in the event log.'),
  inboundDays: integer(365, 1, 36_500, 'How long received mail is kept, in agent mailboxes as well.'),
  inboundRawDays: integer(30, 1, 3650, 'Retention of raw received messages.'),
  logsDays: integer(730, 1, 36_500, 'How long the records of emails and their outcomes are kept, and operations.'),
  auditDays: integer(1095, 30, 36_500, 'How long entries of the audit log are kept.'),
  requestLogDays: integer(
    30,
    1,
    3650,
    'How long requests to the API, by SMTP and MCP stay in the logs of their account.',
  ),
  requestLogRows: integer(
    100_000,
    0,
    10_000_000,
    'How many requests the logs of an account have at most; the oldest make way. 0: requests are not logged.',
  ),
  dataMaxBytes: size(
    0,
    0,
    100_000 * GiB,
    'Maximum bytes of mail and events, at most 80 % of the disk; accounts above their share of it lose their oldest. 0: 80 % of the disk.',
  ),
}

const backupSettings = {
  backupDir: path(
    'Folder of scheduled backups, best on another disk; the service must be allowed to write to it. Empty: none is written there.',
  ),
  backupAt: list(
    'Times of day (UTC) of scheduled backups.',
    'times such as 03:15, separated by commas',
    (value) => /^([01]\d|2[0-3]):[0-5]\d$/.test(value),
    ['03:15'],
  ),
  backupKeep: integer(7, 1, 10_000, 'Number of scheduled backups that are kept, in each place.'),
  backupS3Url: optional(
    'a URL such as https://s3.eu-central-1.amazonaws.com/bucket/prefix?region=eu-central-1, or nothing',
    'S3-compatible storage for scheduled backups: its endpoint, the bucket, which must exist, the beginning of the names of all objects (default: tassis; each service needs its own), and the region, if the provider has several; empty: none is written there.',
    (value) => parseS3Url(value) !== undefined,
  ),
  backupS3AccessKeyId: text('', 'Access key of the storage.', 'an access key'),
  backupS3SecretAccessKey: secret(text('', 'Secret of the access key.', 'a secret key')),
}

const clusterSettings = {
  replicate: secret(
    optional(
      'a URL such as postgres://tassis:password@db1.example.com:5432,db2.example.com:5432/tassis?sslmode=verify-full, or nothing',
      'PostgreSQL in which every commit is stored too before it counts, so that another node with the same setting takes over when this one dies; of several hosts the one that accepts writes is used. Empty: this is the only node.',
      (value) => parsePostgresUrl(value) !== undefined,
    ),
  ),
  node: checked(
    () => localHostName(),
    'a name of letters, digits, dots and hyphens',
    'Name of this node in its cluster; each has its own.',
    (value) => HOST_NAME.test(value),
    "the machine's name",
  ),
  takeoverSeconds: integer(5, 2, 600, 'Silence of the leader after which another node takes over.'),
}

const operatorSettings = {
  systemFrom: optional(
    'a mailbox such as Tassis <no-reply@example.com>, or nothing',
    'Sender of system mail (invitations, password resets, notices), an address at a verified domain of an account here; empty: no-reply at the first verified domain of the oldest account.',
    (v) => parseMailbox(v).kind !== 'invalid',
  ),
  operatorEmail: optional(
    'an address such as ada@example.com, or nothing',
    'Address of the operator, who gets a mail when a check of `tassis doctor` turns bad, and when it is mended; best one whose mail does not depend on this server.',
    (value) => parseMailbox(value).kind !== 'invalid',
  ),
  doctorSmtpDomains: list(
    'Domains of large receivers. Every hour `tassis doctor` connects to their mail hosts, to find out whether outgoing connections are blocked, and sends nothing.',
    'a comma-separated list of domains, or none',
    (value) => HOST_NAME.test(value),
    ['gmail.com', 'outlook.com', 'yahoo.com'],
  ),
  doctorBlockLists: list(
    'DNS block lists (RFC 5782) in which `tassis doctor` looks up the outgoing addresses every hour.',
    'a comma-separated list of zones such as zen.spamhaus.org, or none',
    (value) => HOST_NAME.test(value),
    ['zen.spamhaus.org', 'bl.spamcop.net', 'psbl.surriel.com'],
  ),
  doctorTimeServers: list(
    'Time servers (NTP) with which `tassis doctor` compares the clock every hour.',
    'a comma-separated list of hosts such as time.example.com or 192.0.2.1:123, or none',
    (value) => parseHostPort(value, 123) !== undefined,
    ['time.cloudflare.com', 'time.google.com'],
  ),
}

const signInSettings = {
  localSignIn: flag(
    true,
    'Whether people may sign in with a password or a passkey of Tassis. false: only by TASSIS_OIDC_ISSUER, and with a password for 24 hours after `tassis users reset`.',
  ),
  oidcIssuer: optional(
    'an https URL, or nothing',
    'Issuer of an OpenID Connect identity provider by which people may sign in; http only on this machine. Its redirect URI is {public_url}/login/callback. Empty: none.',
    isIssuer,
  ),
  oidcClientId: text('', 'Client id of this service at the identity provider.', 'a client id'),
  oidcClientSecret: secret(text('', 'Secret of the client; empty: a public client, with PKCE alone.')),
  oidcName: text('single sign-on', 'Name of the identity provider on the button of the sign-in page.', 'a name'),
  oidcScopes: list(
    'Scopes to request.',
    'a comma-separated list of scopes',
    (value) => /^[!#-[\]-~]{1,100}$/.test(value),
    ['openid', 'email', 'profile'],
  ),
  oidcRoleClaim: text(
    '',
    'Claim whose values give roles, such as `groups` or `realm_access.roles`; empty: none does.',
    'the name of a claim',
  ),
  oidcRoles: list(
    'Who gets which role: a value of the claim or `@` and the domain of an address, `=`, the role, and `@` with the id of an account if that is not TASSIS_OIDC_ACCOUNT. Of several in one account the highest counts. Without any value of the claim here, its values are the names of roles.',
    'a comma-separated list such as mail-admins=admin, @example.com=viewer or acme=viewer@018f…',
    (value) => parseRoleRule(value) !== undefined,
  ),
  oidcAccount: optional(
    'the id of an account, or nothing',
    'Account that people join by TASSIS_OIDC_ROLES; empty: the only one.',
    (value) => parseUuid(value) !== undefined,
  ),
}

const billingSettings = {
  stripeKey: secret(text('', 'Secret API key of Stripe; empty: billing is off.')),
  stripeWebhookSecret: secret(text('', 'Signing secret of the Stripe webhook endpoint {public_url}/billing/stripe.')),
  stripeUrl: checked(
    'https://api.stripe.com',
    'a URL such as https://api.stripe.com',
    'URL of the Stripe API.',
    isHttpUrl,
  ),
}

const receiverSettings = {
  googleServiceAccount: path(
    'JSON file with the key of a Google service account; empty: Google Postmaster Tools is not asked. Owners of domains share them there with its address.',
  ),
  sndsKey: secret(
    text('', "Key of SNDS's automated data access, for the outgoing addresses; empty: SNDS is not asked."),
  ),
}

const LLM_USES: readonly string[] = ['classification', 'insights', 'phishing']

const languageModelSettings = {
  llmUrl: optional(
    'a URL such as http://127.0.0.1:11434/v1 or https://llm.example.com/v1, or nothing',
    'Base URL of an OpenAI-compatible API, for TASSIS_LLM_USES; empty: no model is used.',
    isHttpUrl,
  ),
  llmUses: list(
    'What TASSIS_LLM_URL is used for: classification (of messages in agent mailboxes), insights (receives statistics only), phishing (receives text and links of mail that rules flag as suspicious).',
    'a comma-separated list of classification, insights, phishing',
    (value) => LLM_USES.includes(value),
    ['classification', 'insights'],
  ),
  llmKey: secret(text('', 'API key for TASSIS_LLM_URL.')),
  llmModel: text('', 'Model to use at TASSIS_LLM_URL.', 'a model name'),
}

const rspamdSettings = {
  rspamdUrl: optional(
    'a URL such as http://127.0.0.1:11333, or nothing',
    'URL of an rspamd worker, which judges incoming mail and the mail of POST /v1/emails/check; empty: none.',
    isHttpUrl,
  ),
  rspamdPassword: secret(text('', 'Password for TASSIS_RSPAMD_URL, which the controller of rspamd asks for.')),
}

const mcpSettings = {
  apiKey: secret(text('', 'API key with which `tassis mcp` calls a service. Not used by the service itself.')),
}

const networkSettings = {
  dnsServers: list(
    'DNS servers to query, in order; empty: those of the system.',
    'a comma-separated list of addresses such as 127.0.0.1:53 or [::1]:53',
    (value) => {
      const server = parseHostPort(value, 53)
      return server !== undefined && isIP(server.host) !== 0
    },
  ),
  smtpPort: integer(25, 1, 65_535, 'Port of receiving servers.'),
  allowPrivateNetworks: flagOr(
    'loopback',
    false,
    'Whether mail and webhooks may go to private and loopback addresses; `loopback` allows only the addresses of this machine. Only for tests and development.',
  ),
}

/** In the order in which they are checked, in which `tassis config` lists them and docs/configuration.md has them. */
export const SETTING_GROUPS = [
  { topic: 'Start the service', guide: 'deployment.md', settings: serviceSettings },
  { topic: 'Let clients reach the API', guide: 'deployment.md', settings: clientSettings },
  { topic: 'Serve HTTPS', guide: 'certificates.md', settings: certificateSettings },
  { topic: 'Send directly, through a smarthost, or not at all', guide: 'delivery.md', settings: sendingSettings },
  { topic: 'Send from several addresses', guide: 'delivery.md', settings: addressSettings },
  { topic: 'Receive mail', guide: 'receiving.md', settings: receivingSettings },
  { topic: 'Accept mail by SMTP', guide: 'submission.md', settings: submissionSettings },
  { topic: 'Limit what tenants may do', guide: 'plans-and-billing.md', settings: tenantSettings },
  { topic: 'Limit what strangers may do', guide: 'abuse.md', settings: strangerSettings },
  { topic: 'Use more or less of the machine', guide: 'deployment.md', settings: machineSettings },
  { topic: 'Keep data longer or shorter', guide: 'retention.md', settings: retentionSettings },
  { topic: 'Take backups', guide: 'backup.md', settings: backupSettings },
  { topic: 'Let another node take over', guide: 'scaling.md', settings: clusterSettings },
  { topic: 'Send mail to users and to the operator', guide: 'people.md', settings: operatorSettings },
  { topic: 'Let people sign in elsewhere', guide: 'people.md', settings: signInSettings },
  { topic: 'Take payments', guide: 'plans-and-billing.md', settings: billingSettings },
  { topic: 'Ask receivers what they think of your mail', guide: 'sender-rules.md', settings: receiverSettings },
  { topic: 'Use a language model', guide: 'insights.md', settings: languageModelSettings },
  { topic: 'Judge spam', guide: 'receiving.md', settings: rspamdSettings },
  { topic: 'Connect an agent', guide: 'mcp.md', settings: mcpSettings },
  { topic: 'Use another network, for tests and development', guide: 'deployment.md', settings: networkSettings },
] as const satisfies readonly SettingGroup[]

type UnionToIntersection<U> = (U extends unknown ? (value: U) => void : never) extends (value: infer I) => void
  ? I
  : never

type AllSettings = UnionToIntersection<(typeof SETTING_GROUPS)[number]['settings']>

declare module '#platform/settings/config.ts' {
  interface Config extends SettingValues<AllSettings> {}
}

/**
 * Reads all settings, by default from the environment of the process. Throws ConfigError for the first invalid value
 * and for unknown variables or keys.
 */
export function loadConfig(environment?: Record<string, string | undefined>): LoadedConfig {
  const loaded = readSettings(SETTING_GROUPS, environment)
  requireRelayUrl(loaded.config)
  requireWayToSignIn(loaded.config)
  return loaded
}

function requireRelayUrl({ delivery, relayUrl }: Config): void {
  if (delivery !== 'relay' || relayUrl !== '') return
  throw new ConfigError(
    'TASSIS_DELIVERY is "relay" but TASSIS_RELAY_URL is not set; set it to a URL such as smtp://user:password@smtp.example.com:587.',
  )
}

function requireWayToSignIn({ localSignIn, oidcIssuer, oidcClientId }: Config): void {
  if (oidcIssuer !== '' && oidcClientId === '')
    throw new ConfigError('TASSIS_OIDC_ISSUER is set but TASSIS_OIDC_CLIENT_ID is not; set it to the id of the client.')
  if (!localSignIn && oidcIssuer === '')
    throw new ConfigError('TASSIS_LOCAL_SIGN_IN is false but TASSIS_OIDC_ISSUER is not set, so nobody could sign in.')
}

function isIssuer(value: string): boolean {
  const { protocol, hostname } = URL.parse(value) ?? {}
  return isHttpUrl(value) && (protocol === 'https:' || isLoopbackName(hostname ?? ''))
}

/** The name of this machine, if it can be a host name. */
export function localHostName(): string {
  const name = systemHostname()
  return HOST_NAME.test(name) ? name : 'localhost'
}

export const toSettingRecord = ({ topic, variable, tomlKey, value, source, setting }: SettingReport) => ({
  topic,
  variable,
  toml_key: tomlKey,
  value,
  source,
  allowed: setting.allowed,
  description: setting.doc,
})
