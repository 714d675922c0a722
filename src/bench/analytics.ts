/**
 * @module The analytics benchmark: SQL fills a year of mail with its events; then the endpoints are requested one after
 * another on an otherwise idle service, while a second loop polls /healthz.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError } from '#app/cli/admin-command.ts'
import { openApp } from '#app/create.ts'
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { indexAllEmails } from '#features/sending/queue/search.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { days, MiB } from '#platform/units.ts'
import analyticsSql from './analytics.sql' with { type: 'text' }
import { pollHealth } from './imports.ts'
import { HTML_BYTES, SENDER_DOMAIN, TEXT_BYTES } from './mails.ts'
import { readUsage, startService } from './processes.ts'
import { runSeedSql, seedDataDirectory } from './seed.ts'

/** Times are in ms, from the request to the last octet of its response. */
export interface AnalyticsStats {
  readonly overview30P50Ms: number
  readonly overview30P99Ms: number
  readonly overview366P50Ms: number
  readonly overview366P99Ms: number
  readonly timeseries366P50Ms: number
  readonly timeseries366P99Ms: number
  readonly export366P50Ms: number
  readonly export366P99Ms: number
  readonly domains30P50Ms: number
  readonly domains30P99Ms: number
  readonly domains366P50Ms: number
  readonly domains366P99Ms: number
  /** Latency of GET /healthz during the run. */
  readonly healthP99Ms: number
  readonly healthWorstMs: number
  /** What the database holds. */
  readonly events: number
  readonly domainRows: number
  readonly databaseMiB: number
  /** Resident memory of the service at the end. */
  readonly rssMiB: number
}

export const ANALYTICS_STAT_NAMES = [
  'overview30P50Ms',
  'overview30P99Ms',
  'overview366P50Ms',
  'overview366P99Ms',
  'timeseries366P50Ms',
  'timeseries366P99Ms',
  'export366P50Ms',
  'export366P99Ms',
  'domains30P50Ms',
  'domains30P99Ms',
  'domains366P50Ms',
  'domains366P99Ms',
  'healthP99Ms',
  'healthWorstMs',
  'events',
  'domainRows',
  'databaseMiB',
  'rssMiB',
] as const satisfies readonly (keyof AnalyticsStats)[]

const DAY_COUNT = 366
/** Recipient domains in the whole year. */
export const DOMAIN_COUNT = 50_000
/** Average number of events per seeded email. */
const EVENTS_PER_EMAIL = 3.48
/** Requests per measurement. */
export const REQUEST_COUNT = 300
const SETTLE_MS = 1000

export interface AnalyticsFixture {
  readonly dataDir: string
  readonly key: string
  /** First and last day, YYYY-MM-DD. */
  readonly from: string
  readonly to: string
  readonly events: number
  readonly domainRows: number
}

/** Creates a data directory with about `events` events over the 366 days up to yesterday. */
export async function prepareAnalytics(
  config: Config,
  events: number,
  progress: (text: string) => void = () => undefined,
): Promise<AnalyticsFixture> {
  const lastDay = dayOf(systemClock.now()) - 1
  const firstDay = lastDay - DAY_COUNT + 1
  const emails = Math.ceil(events / EVENTS_PER_EMAIL)
  const key = await seedDataDirectory(config, 0)
  const opened = openApp(config)
  try {
    const { app } = opened
    const queryNumber = (sql: string): number => app.db.query<{ n: number }, []>(sql).get()?.n ?? 0
    const accountId = queryNumber('SELECT min(id) AS n FROM accounts')
    for (let index = 0; index < DAY_COUNT; index++) {
      if (index % 30 === 0) progress(`  ${Math.round((index * 100) / DAY_COUNT)} %`)
      const first = Math.floor((emails * index) / DAY_COUNT)
      const count = Math.floor((emails * (index + 1)) / DAY_COUNT) - first
      await seedDay(app, accountId, { day: firstDay + index, first, count })
    }
    await app.commit.write(({ db }) => indexAllEmails(db))
    return {
      dataDir: config.dataDir,
      key,
      from: formatDay(firstDay),
      to: formatDay(lastDay),
      events: queryNumber('SELECT sum(last_seq) AS n FROM event_sequences'),
      domainRows: queryNumber("SELECT count(*) AS n FROM daily_figures WHERE day >= 0 AND domain <> ''"),
    }
  } finally {
    await opened.close()
  }
}

const formatDay = (day: number): string => isoTime(day * days(1)).slice(0, 10)

/** Fills one day in one transaction, so that the write-ahead log stays small. */
async function seedDay(
  app: App,
  accountId: number,
  { day, first, count }: { readonly day: number; readonly first: number; readonly count: number },
): Promise<void> {
  const date = new Date(day * days(1))
  const parameters = {
    account_id: accountId,
    domain_id: findSendingDomain(app.db, accountId, SENDER_DOMAIN)?.id ?? 0,
    stream_id: findStreamId(app.db, accountId, DEFAULT_STREAM) ?? 0,
    from_address: `Bench <orders@${SENDER_DOMAIN}>`,
    size_bytes: TEXT_BYTES + HTML_BYTES,
    domains: DOMAIN_COUNT,
    emails: count,
    first,
    since_ms: day * days(1),
    quota_month: date.getUTCFullYear() * 12 + date.getUTCMonth(),
    sent_status: statusCode('sent'),
    bounced_status: statusCode('bounced'),
    queued_event: toEventCode('queued'),
    sent_event: toEventCode('sent'),
    delivered_event: toEventCode('delivered'),
    bounced_event: toEventCode('bounced'),
    opened_event: toEventCode('opened'),
    clicked_event: toEventCode('clicked'),
  }
  await app.commit.write(({ db }) => {
    const lastSeq = db.query<{ n: number }, [number]>('SELECT last_seq AS n FROM event_sequences WHERE account_id = ?')
    runSeedSql(db, analyticsSql, { ...parameters, last_seq: lastSeq.get(accountId)?.n ?? 0 })
  })
}

/** Measures one run. During the run, only the service's own background work changes the data directory. */
export async function runAnalytics(fixture: AnalyticsFixture): Promise<AnalyticsStats> {
  await using service = await startService(fixture.dataDir)
  const url = `http://127.0.0.1:${service.port}`
  await systemClock.sleep(SETTLE_MS)
  const health = pollHealth(url)
  const year = `from=${fixture.from}&to=${fixture.to}`
  const measure = (path: string) => measurePercentiles(() => `${url}/v1/analytics/${path}`, fixture.key)
  const [overview30, overview366] = [await measure('overview'), await measure(`overview?${year}`)]
  const [timeseries366, export366] = [await measure(`timeseries?${year}`), await measure(`export?${year}`)]
  const [domains30, domains366] = [await measure('domains'), await measure(`domains?${year}`)]
  const waitedMs = (await health.stop()).toSorted((a, b) => a - b)
  return {
    overview30P50Ms: overview30.p50,
    overview30P99Ms: overview30.p99,
    overview366P50Ms: overview366.p50,
    overview366P99Ms: overview366.p99,
    timeseries366P50Ms: timeseries366.p50,
    timeseries366P99Ms: timeseries366.p99,
    export366P50Ms: export366.p50,
    export366P99Ms: export366.p99,
    domains30P50Ms: domains30.p50,
    domains30P99Ms: domains30.p99,
    domains366P50Ms: domains366.p50,
    domains366P99Ms: domains366.p99,
    healthP99Ms: waitedMs[Math.floor(waitedMs.length * 0.99)] ?? Number.NaN,
    healthWorstMs: waitedMs.at(-1) ?? Number.NaN,
    events: fixture.events,
    domainRows: fixture.domainRows,
    databaseMiB: measureDatabase(fixture.dataDir) / MiB,
    rssMiB: readUsage(service.pid).rssMiB,
  }
}

/**
 * Sends requests one after another; includes the first response, from a cold cache.
 * @param urlOf the URL of the n-th request, from 0
 */
export async function measurePercentiles(
  urlOf: (index: number) => string,
  key: string,
): Promise<{ p50: number; p99: number }> {
  const tookMs: number[] = []
  while (tookMs.length < REQUEST_COUNT) {
    const askedMs = systemClock.monotonicMs()
    const answer = await fetch(urlOf(tookMs.length), { headers: { authorization: `Bearer ${key}` } })
    const text = await answer.text()
    tookMs.push(systemClock.monotonicMs() - askedMs)
    if (!answer.ok) throw new CommandError(`The service returned ${answer.status}: ${text.slice(0, 200)}`)
  }
  const sorted = tookMs.toSorted((a, b) => a - b)
  const pickPercentile = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  return { p50: pickPercentile(0.5), p99: pickPercentile(0.99) }
}

/** Octets of the main database. */
export const measureDatabase = (folder: string): number =>
  readdirSync(folder)
    .filter((name) => name.startsWith('tassis.db'))
    .reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
