/** @module `tassis domains`: register domains, show the DNS records to publish, look whether they are there. */
import type { Command } from 'commander'
import type { App } from '#features/core/app/app.ts'
import { DNS_RECORD_KEYS, type DnsRecord, type DnsRecordKey } from '#features/setup/domains/dns-records.ts'
import {
  createDomain,
  type Domain,
  findDomainByName,
  getDomain,
  listDomains,
  recordsOf,
} from '#features/setup/domains/domains.ts'
import { validateDomainName } from '#features/setup/domains/name.ts'
import { findCoveringDomain } from '#features/setup/domains/sending.ts'
import { lostRecordsOf, SENDING_RECORDS, sendsUntil } from '#features/setup/domains/standing.ts'
import { verifyDomain, vouchForDomain } from '#features/setup/domains/verify.ts'
import type { Config } from '#platform/config.ts'
import { notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { systemServers } from '#protocols/dns/servers.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { checksText, recordsForPeople, zoneLines } from './dns-text.ts'
import { hostnameWarnings } from './hostname.ts'
import { operation } from './operation.ts'
import { type AccountOption, type JsonOption, withAccount, withJson } from './options.ts'
import { print, printable, printJson, report, table, utc } from './output.ts'

interface ShownDomain {
  readonly id: string
  readonly domain: string
  readonly verified: boolean
  readonly verified_at: string | null
  /** Since when it lacks records that it had when it was verified, which, and until when it sends without them. */
  readonly records_lost_at: string | null
  readonly lost_records: readonly DnsRecordKey[]
  readonly sends_until: string | null
  /** The verified domain above under which its mail is sent while it is not verified itself. */
  readonly covered_by: string | null
  readonly checked_at: string | null
  readonly created_at: string
  readonly dns_records: readonly ShownRecord[]
}

/** A record to publish, and what it is. */
export interface ShownRecord {
  readonly key: DnsRecordKey | 'tracking'
  readonly type: string
  readonly host: string
  readonly value: string
  readonly priority: number | null
  readonly verified: boolean
}

function shownDomain(app: App, domain: Domain): ShownDomain {
  const records = recordsOf(app.config, domain)
  return {
    id: formatUuid(domain.uuid),
    domain: domain.domain,
    verified: domain.verifiedAt !== null,
    verified_at: isoTimeOrNull(domain.verifiedAt),
    records_lost_at: isoTimeOrNull(domain.recordsLostAt),
    lost_records: lostRecordsOf(domain),
    sends_until: isoTimeOrNull(sendsUntil(domain)),
    covered_by:
      domain.verifiedAt === null ? (findCoveringDomain(app.db, domain.accountId, domain.domain) ?? null) : null,
    checked_at: isoTimeOrNull(domain.checkedAt),
    created_at: isoTime(domain.createdAt),
    dns_records: [...DNS_RECORD_KEYS, 'tracking' as const].flatMap((key) => {
      const record = records[key]
      return record === undefined ? [] : [shownRecord(key, record)]
    }),
  }
}

const shownRecord = (key: ShownRecord['key'], { type, host, value, priority, verified }: DnsRecord): ShownRecord => ({
  key,
  type,
  host,
  value,
  priority: priority ?? null,
  verified,
})

interface DomainInput extends AccountOption {
  /** Name or id. */
  readonly domain: string
}

function chosenDomain(app: App, accountId: number, wanted: string): Domain {
  if (parseUuid(wanted)) return getDomain(app.db, accountId, wanted)
  const name = validateDomainName(wanted)
  const found = name.kind === 'ok' && findDomainByName(app.db, accountId, name.domain)
  if (!found) {
    throw notFound(
      'domain_not_found',
      `The account has no domain ${wanted}; \`tassis domains list\` shows all, \`tassis domains add\` adds one.`,
    )
  }
  return found
}

const add = operation('domains.add', async ({ opened: { app } }, { account, domain }: DomainInput) => {
  const created = await createDomain(app, operatorOf(app, account), domain)
  return {
    ...shownDomain(app, created.domain),
    unverified: app.config.sendingUnverified,
    warnings: [...created.warnings, ...hostnameWarnings(app.config)],
  }
})

const WARNING = 'Warning: '

/** Most that are listed at once. */
const LIST_LIMIT = 1000

const list = operation('domains.list', ({ opened: { app } }, { account }: AccountOption) => {
  const { accountId } = operatorOf(app, account)
  const { domains, total } = listDomains(app.db, accountId, { limit: LIST_LIMIT, offset: 0 })
  return { domains: domains.map((domain) => shownDomain(app, domain)), total }
})

const records = operation('domains.records', ({ opened: { app } }, { account, domain }: DomainInput) => ({
  ...shownDomain(app, chosenDomain(app, operatorOf(app, account).accountId, domain)),
  warnings: hostnameWarnings(app.config),
}))

const verify = operation('domains.verify', async ({ opened: { app } }, { account, domain }: DomainInput) => {
  const actor = operatorOf(app, account)
  const before = chosenDomain(app, actor.accountId, domain)
  const found = await verifyDomain(app, actor, formatUuid(before.uuid))
  return {
    ...shownDomain(app, found.domain),
    checks: found.checks,
    fully_verified: found.fullyVerified,
    unverified: app.config.sendingUnverified,
    took_mail_before: takesMail(before),
    warnings: hostnameWarnings(app.config),
    dns_servers: app.config.dnsServers.length > 0 ? app.config.dnsServers : systemServers(),
  }
})

/** Whether mail to it is taken, as far as it depends on the domain. */
const takesMail = ({ verifiedAt, inboundEnabled }: Domain): boolean => verifiedAt !== null && inboundEnabled

const vouch = operation('domains.vouch', async ({ opened: { app } }, { account, domain }: DomainInput) => {
  const actor = operatorOf(app, account)
  const { id } = shownDomain(app, chosenDomain(app, actor.accountId, domain))
  return {
    ...shownDomain(app, await vouchForDomain(app, actor, id)),
    warnings:
      app.config.inboundAddr === ''
        ? ['No mail comes in until the service runs with TASSIS_INBOUND_ADDR, such as 127.0.0.1:2525.']
        : [],
  }
})

export const domainOperations = [add, list, records, verify, vouch]

const inputOf = (domain: string, { account }: AccountOption): DomainInput => ({
  domain,
  ...(account !== undefined && { account }),
})

export function addDomainCommands(program: Command): void {
  const domains = program.command('domains').description('register and verify sending domains')

  withAccount(withJson(domains.command('add').description('register a domain and print what to publish')))
    .argument('<domain>', 'such as example.com')
    .action(async (domain: string, options: JsonOption & AccountOption) => {
      const added = await withData(loadConfig().config, (call) => call(add, inputOf(domain, options)))
      report(options, added, (shown) =>
        [
          `Registered ${shown.domain} (${shown.id}). ${untilVerified(shown)}`,
          ...shown.warnings.map((warning) => `Note: ${printable(warning)}`),
          '',
          recordsForPeople(shown.domain, shown.dns_records),
          '',
          `Then: tassis domains verify ${shown.domain}`,
        ].join('\n'),
      )
    })

  withAccount(withJson(domains.command('list').description('list the domains of an account'))).action(
    async (options: JsonOption & AccountOption) => {
      const { account } = options
      const found = await withData(loadConfig().config, (call) => call(list, account === undefined ? {} : { account }))
      if (options.json) return printJson(found.domains)
      if (found.total === 0) return print('The account has no domain; add one with `tassis domains add example.com`.')
      const { domains: shown, total } = found
      print(
        [
          table(
            ['DOMAIN', 'STATE', 'LAST LOOK', 'ID', ''],
            shown.map((domain) => [
              domain.domain,
              stateOf(domain),
              domain.checked_at === null ? 'never' : utc(domain.checked_at),
              domain.id,
              missingRecords(domain),
            ]),
          ),
          ...(total > shown.length ? [`… and ${total - shown.length} more`] : []),
        ].join('\n'),
      )
    },
  )

  withAccount(withJson(domains.command('records').description('print the DNS records to publish, to copy')))
    .argument('<domain>', 'name or ID')
    .option('--zone', 'as lines of a zone file')
    .action(async (domain: string, options: JsonOption & AccountOption & { zone?: boolean }) => {
      const found = await withData(loadConfig().config, (call) => call(records, inputOf(domain, options)))
      report(options, found, (shown) =>
        options.zone
          ? [...shown.warnings.map((warning) => `; ${WARNING}${warning}`), zoneLines(shown.dns_records)].join('\n')
          : [
              ...shown.warnings.map((warning) => `${WARNING}${warning}\n`),
              recordsForPeople(shown.domain, shown.dns_records),
            ].join('\n'),
      )
    })

  withAccount(
    withJson(
      domains
        .command('verify')
        .description('check DNS now; exit code 1 while a record is missing that is needed to send'),
    ),
  )
    .argument('<domain>', 'name or ID')
    .option('--without-dns', `${WITHOUT_DNS}; this ends 72 hours after a check that finds no records`)
    .action((domain: string, { withoutDns, ...options }: VerifyOptions) =>
      withoutDns ? vouchFor(domain, options) : checkDns(domain, options),
    )

  withAccount(withJson(domains.command('vouch').description(`${WITHOUT_DNS}: the same as \`verify --without-dns\``)))
    .argument('<domain>', 'name or ID')
    .action(vouchFor)
}

const WITHOUT_DNS = 'mark a domain verified without a DNS check, to try things out'

interface VerifyOptions extends JsonOption, AccountOption {
  readonly withoutDns?: boolean
}

async function checkDns(domain: string, options: JsonOption & AccountOption): Promise<void> {
  const found = await withData(loadConfig().config, (call) => call(verify, inputOf(domain, options)))
  report(options, found, (shown) =>
    [
      ...shown.warnings.map((warning) => `${WARNING}${warning}\n`),
      checksText(shown.checks, shown.dns_servers),
      '',
      shown.fully_verified
        ? `${shown.domain} is verified: its mail is sent.`
        : `${standingText(shown)} \`tassis domains records ${shown.domain}\` prints what to publish.`,
      ...(shown.took_mail_before && !shown.verified
        ? [`${shown.domain} took mail and takes none any more: who sends to it is refused for good (550).`]
        : []),
    ].join('\n'),
  )
  if (!found.fully_verified) process.exitCode = 1
}

async function vouchFor(domain: string, options: JsonOption & AccountOption): Promise<void> {
  const found = await withData(loadConfig().config, (call) => call(vouch, inputOf(domain, options)))
  report(options, found, (shown) =>
    [
      `${shown.domain} counts as verified and takes mail, on your word. That ends 72 hours after a look finds that its records are not in DNS, by \`tassis domains verify\` or every 6 hours.`,
      ...shown.warnings.map((warning) => `${WARNING}${warning}`),
    ].join('\n'),
  )
}

type Unverified = Config['sendingUnverified']

/** What becomes of the mail of a domain that never was verified. */
function untilVerified({ covered_by: parent, unverified }: ShownDomain & { readonly unverified: Unverified }): string {
  if (parent !== null)
    return `Its mail is sent, under ${parent}, which is verified; once it is verified itself, under its own name.`
  return `Until it is verified, its mail is ${unverified === 'reject' ? 'refused' : 'only captured'}.`
}

/** What a domain that lacks records may do, in sentences. */
function standingText(shown: ShownDomain & { readonly unverified: Unverified }): string {
  const {
    domain,
    verified,
    records_lost_at: lostAt,
    lost_records: lost,
    sends_until: until,
    covered_by: parent,
  } = shown
  if (lostAt === null || until === null) return `${domain} is not verified. ${untilVerified(shown)}`
  const since = `${domain} was verified and has lacked records since ${utc(lostAt)} (${lost.join(', ')}):`
  if (verified) return `${since} its mail is sent until ${utc(until)}, then refused.`
  if (parent !== null) return `${since} its mail is sent under ${parent}, which is verified.`
  return `${since} its mail has been refused since ${utc(until)}.`
}

function stateOf({ verified, records_lost_at: lostAt, covered_by: parent }: ShownDomain): string {
  if (verified) return lostAt === null ? 'verified' : 'losing'
  if (parent !== null) return 'covered'
  return lostAt === null ? 'unverified' : 'lost'
}

/** The records without which the domain does not send, as far as they are missing, and what follows from that. */
function missingRecords(shown: ShownDomain): string {
  const { dns_records: records, verified, records_lost_at: lostAt, lost_records: lost, sends_until: until } = shown
  const cover = shown.covered_by === null ? '' : `; sends under ${shown.covered_by}`
  if (lostAt !== null && until !== null) {
    const end = cover === '' ? `; ${verified ? 'sends until' : 'refused since'} ${utc(until)}` : cover
    return `missing since ${utc(lostAt)}: ${lost.join(', ')}${end}`
  }
  if (verified) return ''
  const missing = records.filter(
    ({ key, verified: isThere }) => key !== 'tracking' && SENDING_RECORDS.includes(key) && !isThere,
  )
  return missing.length > 0 ? `missing: ${missing.map(({ key }) => key).join(', ')}${cover}` : cover.slice(2)
}
