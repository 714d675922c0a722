/**
 * @module Finds the busiest recipient domains of a period without summing all domains: an account sends to thousands of
 * domains a day, most of which get one or two messages. An index sorts the domains of each day, and of each whole
 * month, by the number of messages sent to them. Fagin's threshold algorithm reads only the beginnings of these
 * lists, until no domain further down can be among the first. Yields to the event loop every few ms.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { ALL_DOMAINS, type DailyStats, listRowKeys } from '#features/core/events/daily-stats.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { createAccountQueue } from './account-queue.ts'
import { createDayList, type DayList, type DayRow, Ranking, recordRead } from './day-lists.ts'
import type { Period } from './period.ts'
import { NO_STATS, STATS_SUMS, sumStats } from './stats.ts'

export interface DomainStats extends DailyStats {
  readonly domain: string
}

/** Rows first read from each list. */
const FIRST_DEPTH = 16
/**
 * Limits of rows read and domains kept in memory. They are reached only by mail spread evenly over hundreds of
 * thousands of domains; the rows read until then determine the result, which may be inexact.
 */
const MAX_ROWS = 1_000_000
const MAX_DOMAINS = 250_000
/** How many candidates beyond four times the limit may remain; the exact sum of each candidate is read. */
const MAX_EXTRA_CANDIDATES = 64
const BATCH_MS = 4
/** Rows that one statement of the first reads returns: some 2 ms. */
const BATCH_SIZE = 2000

const sql = prepareStatements((db) => ({
  // Returns one text per list, such as `12 example.com,7 example.org`: this costs a third of what separate rows cost. A
  // domain contains neither space nor comma.
  first: db.prepare<{ rows: string | null }, [string, number, number]>(
    `SELECT (SELECT group_concat(sent || ' ' || domain) FROM (SELECT sent, domain FROM daily_figures WHERE account_id = ?2 AND day = wanted.value
       AND sent > 0 AND domain <> '' ORDER BY sent DESC, domain DESC LIMIT ?3)) AS rows FROM json_each(?1) wanted ORDER BY wanted.key`,
  ),
  next: db.prepare<{ sent: number; domain: string }, [number, number, number, string, number]>(
    `SELECT sent, domain FROM daily_figures WHERE account_id = ? AND day = ? AND sent > 0 AND domain <> '' AND (sent, domain) < (?, ?)
     ORDER BY sent DESC, domain DESC LIMIT ?`,
  ),
  // One seek per day: a range over the days would scan all of their domains.
  sums: db.prepare<DailyStats, [string, number, string]>(
    `SELECT ${STATS_SUMS} FROM json_each(?1) wanted CROSS JOIN daily_figures f ON f.account_id = ?2 AND f.day = wanted.value AND f.domain = ?3`,
  ),
}))

/** The stats of one domain over a period. */
export function sumDomainStats(db: Database, accountId: number, domain: string, period: Period): DailyStats {
  // The row that counts all domains exists for days only, not for months.
  if (domain === ALL_DOMAINS) return sumStats(db, accountId, period)
  const keys = JSON.stringify(listRowKeys(period.fromDay, period.toDay))
  return sql(db).sums.get(keys, accountId, domain) ?? NO_STATS
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
  const lists = listRowKeys(period.fromDay, period.toDay).map(createDayList)
  const ranking = new Ranking(lists)
  const depth = Math.max(FIRST_DEPTH, limit)
  let reads = firstReads(db, accountId, lists, depth)
  for (let depthToRead = depth; ; depthToRead *= 2) {
    for (const { list, rows } of reads) {
      ranking.add(list, rows)
      await yieldWhenDue()
    }
    const isFull = ranking.rows >= MAX_ROWS || ranking.domains >= MAX_DOMAINS
    const isComplete = isFull || lists.every(({ isExhausted: isOver }) => isOver)
    const candidates = isComplete
      ? ranking.listBest(limit)
      : ranking.findDecided(limit, 4 * limit + MAX_EXTRA_CANDIDATES)
    await yieldWhenDue()
    if (candidates) {
      const results: DomainStats[] = []
      for (const domain of candidates) {
        results.push({ ...sumDomainStats(db, accountId, domain, period), domain })
        await yieldWhenDue()
      }
      return results.sort((a, b) => b.sent - a.sent || (a.domain < b.domain ? -1 : 1)).slice(0, limit)
    }
    reads = nextReads(db, accountId, lists, depthToRead)
  }
}

interface ListRead {
  readonly list: DayList
  readonly rows: readonly DayRow[]
}

function* firstReads(db: Database, accountId: number, lists: readonly DayList[], depth: number): Generator<ListRead> {
  const listsPerBatch = Math.max(1, Math.floor(BATCH_SIZE / depth))
  for (let from = 0; from < lists.length; from += listsPerBatch) {
    const batch = lists.slice(from, from + listsPerBatch)
    const texts = sql(db).first.all(JSON.stringify(batch.map(({ day }) => day)), accountId, depth)
    for (const [index, list] of batch.entries()) {
      const rows = texts[index]?.rows?.split(',').map(parseRow) ?? []
      recordRead(list, rows, depth)
      yield { list, rows }
    }
  }
}

/** `12 example.com`. */
function parseRow(text: string): DayRow {
  const space = text.indexOf(' ')
  return { sent: Number(text.slice(0, space)), domain: text.slice(space + 1) }
}

function* nextReads(db: Database, accountId: number, lists: readonly DayList[], count: number): Generator<ListRead> {
  for (const list of lists) {
    if (list.isExhausted) continue
    const rows = sql(db).next.all(accountId, list.day, list.sent, list.domain, count)
    recordRead(list, rows, count)
    yield { list, rows }
  }
}
