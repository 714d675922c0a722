/**
 * @module The list benchmark: SQL stores emails, which are then indexed for search as the service does it; then
 * `GET /v1/emails` is requested with different filters, one request after another, on an otherwise idle service.
 */
import { openApp } from '#app/create.ts'
import type { App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { indexPendingEmails } from '#features/sending/queue/search.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { days, hours, MiB } from '#platform/units.ts'
import { measureDatabase, measurePercentiles, REQUEST_COUNT } from './analytics.ts'
import listSql from './list.sql' with { type: 'text' }
import { SENDER_DOMAIN } from './mails.ts'
import { readUsage, startService } from './processes.ts'
import { runSeedSql, seedDataDirectory } from './seed.ts'

/** Each filter is measured with its own requests. */
export const LIST_FILTERS = [
  'none',
  'recipient',
  'recipientBounced',
  'recipientInAWeek',
  'recipientDomain',
  'recipientRareDomain',
  'sender',
  'senderDomain',
  'domain',
  'rareDomain',
  'domainBounced',
  'subject',
  'commonSubject',
  'tag',
] as const
export type ListFilter = (typeof LIST_FILTERS)[number]

/** Times are in ms, from the request to the last octet of its response. */
export type ListStats = Readonly<Record<`${ListFilter}P50Ms` | `${ListFilter}P99Ms`, number>> & {
  readonly databaseMiB: number
  /** Resident memory of the service at the end. */
  readonly rssMiB: number
}

export const LIST_STAT_NAMES: readonly (keyof ListStats)[] = [
  ...LIST_FILTERS.flatMap((filter) => [`${filter}P50Ms`, `${filter}P99Ms`] as const),
  'databaseMiB',
  'rssMiB',
]

const EMAILS_PER_PART = 50_000
const EMAILS_PER_ADDRESS = 10
const RECIPIENT_DOMAINS = 50_000
const TAGS = 1000
const STORED_OVER_DAYS = 30
/** Signs every thousandth email. */
const RARE_DOMAIN = 'rare.bench.test'
const SETTLE_MS = 1000

export interface ListFixture {
  readonly dataDir: string
  readonly key: string
  readonly emails: number
  /** Recipients, one per request. */
  readonly addresses: readonly string[]
  /** The time of the newest email. */
  readonly untilMs: number
}

/** Creates a data directory with `emails` indexed emails of the last 30 days. */
export async function prepareList(
  config: Config,
  emails: number,
  progress: (text: string) => void = () => undefined,
): Promise<ListFixture> {
  const key = await seedDataDirectory(config, 0)
  const opened = openApp(config)
  try {
    const { app } = opened
    const account = app.db.query<{ id: number; uuid: Uint8Array }, []>('SELECT id, uuid FROM accounts LIMIT 1').get()
    if (!account) throw new Error('the benchmark has no account')
    await createDomain(app, toOperatorActor(account), RARE_DOMAIN)
    const untilMs = app.clock.now() - hours(1)
    for (let first = 0; first < emails; first += EMAILS_PER_PART) {
      if (first % (20 * EMAILS_PER_PART) === 0) progress(`  ${Math.round((first * 100) / emails)} %`)
      await seedPart(app, account.id, { first, emails, untilMs })
      await indexPendingEmails(app)
    }
    return { dataDir: config.dataDir, key, emails, addresses: pickAddresses(app, emails), untilMs }
  } finally {
    await opened.close()
  }
}

/** Stores one part in one transaction, so that the write-ahead log stays small. */
async function seedPart(
  app: App,
  accountId: number,
  { first, emails, untilMs }: { readonly first: number; readonly emails: number; readonly untilMs: number },
): Promise<void> {
  const parameters = {
    first,
    emails: Math.min(EMAILS_PER_PART, emails - first),
    all_emails: emails,
    addresses: Math.ceil(emails / EMAILS_PER_ADDRESS),
    domains: RECIPIENT_DOMAINS,
    tags: TAGS,
    account_id: accountId,
    domain_id: findSendingDomain(app.db, accountId, SENDER_DOMAIN)?.id ?? 0,
    rare_domain_id: findSendingDomain(app.db, accountId, RARE_DOMAIN)?.id ?? 0,
    stream_id: findStreamId(app.db, accountId, DEFAULT_STREAM) ?? 0,
    from_address: `Bench <orders@${SENDER_DOMAIN}>`,
    since_ms: untilMs - days(STORED_OVER_DAYS),
    until_ms: untilMs,
    sent_status: statusCode('sent'),
    bounced_status: statusCode('bounced'),
  }
  await app.commit.write(({ db }) => runSeedSql(db, listSql, parameters))
}

/** Addresses evenly from all emails. */
function pickAddresses({ db }: App, emails: number): string[] {
  const find = db.query<{ address: string }, [number]>('SELECT address FROM recipients WHERE id = ?')
  return Array.from(
    { length: REQUEST_COUNT },
    // Plus the index: addresses repeat at regular distances.
    (_, index) => find.get(1 + ((Math.floor((emails * index) / REQUEST_COUNT) + index) % emails))?.address ?? '',
  )
}

/** Measures one run. Only the service's own background work changes the data directory. */
export async function runList(fixture: ListFixture): Promise<ListStats> {
  await using service = await startService(fixture.dataDir)
  const { port } = service
  await systemClock.sleep(SETTLE_MS)
  const entries: (readonly [keyof ListStats, number])[] = []
  for (const filter of LIST_FILTERS) {
    const { p50, p99 } = await measurePercentiles(
      (index) => `http://127.0.0.1:${port}/v1/emails?${new URLSearchParams(createQuery(fixture, filter, index))}`,
      fixture.key,
    )
    entries.push([`${filter}P50Ms`, p50], [`${filter}P99Ms`, p99])
  }
  entries.push(['databaseMiB', measureDatabase(fixture.dataDir) / MiB], ['rssMiB', readUsage(service.pid).rssMiB])
  return Object.fromEntries(entries) as ListStats
}

/** The query of one request; different from request to request where the filter allows it. */
function createQuery(
  { addresses, emails, untilMs }: ListFixture,
  filter: ListFilter,
  index: number,
): Record<string, string> {
  const to = addresses[index] ?? ''
  const number = 1 + Math.floor((emails * index) / REQUEST_COUNT)
  switch (filter) {
    case 'none':
      return {}
    case 'recipient':
      return { to }
    case 'recipientBounced':
      return { to, status: 'bounced' }
    case 'recipientInAWeek':
      return { to, from_date: isoTime(untilMs - days(14)), to_date: isoTime(untilMs - days(7)) }
    case 'recipientDomain':
      return { to: '@d1.example' }
    case 'recipientRareDomain':
      return { to: `@d${1000 + index}.example` }
    case 'sender':
      return { from: `orders@${SENDER_DOMAIN}` }
    case 'senderDomain':
      return { from: `@${SENDER_DOMAIN}` }
    case 'domain':
      return { domain: SENDER_DOMAIN }
    case 'rareDomain':
      return { domain: RARE_DOMAIN }
    case 'domainBounced':
      return { domain: SENDER_DOMAIN, status: 'bounced' }
    case 'subject':
      return { subject: String(number).padStart(10, '0') }
    case 'commonSubject':
      return { subject: 'your order' }
    case 'tag':
      return { tag: `tag-${index % TAGS}` }
  }
}
