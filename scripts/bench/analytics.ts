/** @module Analytics: the endpoints over a year of mail, one request after another on an otherwise idle service. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Benchmark, type Created, latencyFigures, type Values } from '#bench/measure.ts'
import { readUsage, startService } from '#bench/processes.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days, MiB } from '#platform/units.ts'
import { HEALTH_FIGURES, pollHealth } from './health.ts'
import { createGet, measureLatency } from './lists.ts'
import { storeEmails } from './stored-emails.ts'

const DAY_COUNT = 366
/** Recipient domains in the whole year. */
const DOMAIN_COUNT = 50_000
/** Average number of events per stored email. */
const EVENTS_PER_EMAIL = 3.48
/** Requests per measurement. */
const REQUEST_COUNT = 300
const SETTLE_MS = 1000

const YEAR = `from=${toDay(DAY_COUNT)}&to=${toDay(1)}`
const REQUESTS: readonly (readonly [name: string, title: string, path: string])[] = [
  ['overview_month', 'overview, 30 days', 'overview'],
  ['overview_year', 'overview, a year', `overview?${YEAR}`],
  ['timeseries_year', 'timeseries, a year', `timeseries?${YEAR}`],
  ['export_year', 'export, a year', `export?${YEAR}`],
  ['domains_month', 'domains, 30 days', 'domains'],
  ['domains_year', 'domains, a year', `domains?${YEAR}`],
]

function toDay(daysAgo: number): string {
  return isoTime(systemClock.now() - days(daysAgo)).slice(0, 10)
}

/** @param events number of events stored */
export const createAnalyticsBenchmark = (events: number): Benchmark => ({
  name: 'analytics',
  description: `GET /v1/analytics of a year of mail to ${DOMAIN_COUNT} domains, some ${events} events; one request after another.`,
  figures: [
    ...REQUESTS.flatMap(([name, title]) => latencyFigures(name, title)),
    ...HEALTH_FIGURES,
    ['database_mib', 'database, MiB', 0],
    ['rss_mib', 'RSS MiB', 0],
  ],
  async prepare({ create }) {
    const emails = Math.ceil(events / EVENTS_PER_EMAIL)
    const created = await create('analytics', storeEmails({ emails, days: DAY_COUNT, domains: DOMAIN_COUNT }))
    return [{ title: 'runs', run: () => runAnalytics(created) }]
  },
})

async function runAnalytics({ dataDir, key }: Created): Promise<Values> {
  await using service = await startService(dataDir)
  await systemClock.sleep(SETTLE_MS)
  const health = pollHealth(service.port)
  const values: Record<string, number> = {}
  for (const [name, , path] of REQUESTS) {
    const requests = Array.from({ length: REQUEST_COUNT }, () => createGet(`/v1/analytics/${path}`, key))
    Object.assign(values, await measureLatency(name, service.port, requests))
  }
  const bytes = readdirSync(dataDir)
    .filter((name) => name.startsWith('tassis.db'))
    .reduce((sum, name) => sum + statSync(join(dataDir, name)).size, 0)
  return {
    ...values,
    ...(await health.stop()),
    database_mib: bytes / MiB,
    rss_mib: readUsage(service.pid).rssMiB,
  }
}
