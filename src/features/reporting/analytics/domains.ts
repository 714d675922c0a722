/**
 * @module Finds the busiest recipient domains of a period: adds up the busiest domains of each day, which an index
 * sorts, and reads the stats of the first ones. Yields to the event loop every few ms.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { ALL_DOMAINS, type DailyStats } from '#features/core/events/daily-stats.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import type { Period } from './period.ts'
import { NO_STATS, STATS_SUMS, sumStats } from './stats.ts'

export interface DomainStats extends DailyStats {
  readonly domain: string
}

/** The busiest domains of a day, which are added up: as many as a list may have. */
const DOMAINS_PER_DAY = 1000
const BATCH_MS = 4

const sql = prepareStatements((db) => ({
  busiest: db.prepare<{ domain: string; sent: number }, [number, number, number]>(
    `SELECT domain, sent FROM daily_figures WHERE account_id = ? AND day = ? AND sent > 0 AND domain <> ''
     ORDER BY sent DESC, domain DESC LIMIT ?`,
  ),
  // One seek per day: a range over the days would scan all of their domains.
  sums: db.prepare<DailyStats, [string, number, string]>(
    `SELECT ${STATS_SUMS} FROM json_each(?1) wanted CROSS JOIN daily_figures f ON f.account_id = ?2 AND f.day = wanted.value AND f.domain = ?3`,
  ),
}))

const listDays = ({ fromDay, toDay }: Period): number[] =>
  Array.from({ length: toDay - fromDay + 1 }, (_, index) => fromDay + index)

/** The stats of one domain over a period. */
export function sumDomainStats(db: Database, accountId: number, domain: string, period: Period): DailyStats {
  if (domain === ALL_DOMAINS) return sumStats(db, accountId, period)
  return sql(db).sums.get(JSON.stringify(listDays(period)), accountId, domain) ?? NO_STATS
}

const runQueued = createAccountQueue()

/**
 * The domains with the most recipients in a period; ties are sorted by name. Counts added during the call may be
 * included or not. Throws 429 when too many of the account's requests wait.
 * @param limit maximum number of domains
 */
export const findBusiestDomains = (
  app: Pick<App, 'db' | 'clock'>,
  accountId: number,
  period: Period,
  limit: number,
): Promise<DomainStats[]> => runQueued(app.db, accountId, () => findDomains(app, accountId, period, limit))

async function findDomains(
  { db, clock }: Pick<App, 'db' | 'clock'>,
  accountId: number,
  period: Period,
  limit: number,
): Promise<DomainStats[]> {
  let batchStartedAt = clock.monotonicMs()
  const yieldWhenDue = async (): Promise<void> => {
    if (clock.monotonicMs() - batchStartedAt < BATCH_MS) return
    await yieldToEventLoop()
    batchStartedAt = clock.monotonicMs()
  }
  const sums = new Map<string, number>()
  for (const day of listDays(period)) {
    for (const { domain, sent } of sql(db).busiest.all(accountId, day, DOMAINS_PER_DAY))
      sums.set(domain, (sums.get(domain) ?? 0) + sent)
    await yieldWhenDue()
  }
  const results: DomainStats[] = []
  for (const domain of takeLargest(sums, limit)) {
    results.push({ ...sumDomainStats(db, accountId, domain, period), domain })
    await yieldWhenDue()
  }
  return results.sort((a, b) => b.sent - a.sent || (a.domain < b.domain ? -1 : 1))
}

/** The domains with the largest sums; of those with the last one, the first by name. */
function takeLargest(sums: ReadonlyMap<string, number>, limit: number): string[] {
  const threshold = Float64Array.from(sums.values()).sort().at(-limit) ?? 0
  const larger: string[] = []
  const equal: string[] = []
  for (const [domain, sent] of sums) {
    if (sent > threshold) larger.push(domain)
    else if (sent === threshold) equal.push(domain)
  }
  return [...larger, ...equal.sort().slice(0, limit - larger.length)]
}

/** Requests of one account that run or wait. */
const MAX_QUEUED_REQUESTS = 8

/** Creates the queue of one kind of query. Throws 429 when too many of the account's requests wait. */
export function createAccountQueue() {
  const getQueue = perOwner((_: Database) => new SerialQueue<number>())
  return async <T>(db: Database, accountId: number, find: () => Promise<T>): Promise<T> => {
    const queue = getQueue(db)
    if (queue.countOf(accountId) >= MAX_QUEUED_REQUESTS)
      throw tooManyRequests(
        'too_many_requests',
        'Too many requests of this kind are running; wait for them to finish.',
        1,
      )
    return queue.run(accountId, find)
  }
}
