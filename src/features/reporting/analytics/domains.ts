/**
 * @module Finds the busiest recipient domains of a period without summing all domains: an account sends to thousands of
 * domains a day, most of which get one or two messages. An index sorts the domains of each day, and of each whole
 * month, by the number of messages sent to them. Fagin's threshold algorithm reads only the heads of these lists, and
 * longer heads until no domain further down can be among the first. Yields to the event loop every few ms.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { ALL_DOMAINS, type DailyStats, listRowKeys } from '#features/core/events/daily-stats.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { createAccountQueue } from './account-queue.ts'
import type { Period } from './period.ts'
import { NO_STATS, STATS_SUMS, sumStats } from './stats.ts'

export interface DomainStats extends DailyStats {
  readonly domain: string
}

/** Rows first read from each list. */
const FIRST_DEPTH = 16
/** How many times longer the heads are at the next attempt. */
const DEPTH_FACTOR = 2
/**
 * Limit of rows kept in memory. It is reached only by mail spread evenly over hundreds of thousands of domains; the rows
 * read until then determine the result, which may be inexact.
 */
const MAX_ROWS = 1_000_000
/** How many candidates beyond four times the limit may remain; the exact sum of each candidate is read. */
const MAX_EXTRA_CANDIDATES = 64
const BATCH_MS = 4
/** Rows that one statement returns: some 2 ms. */
const BATCH_SIZE = 2000

const sql = prepareStatements((db) => ({
  // Returns one text per list, such as `12 example.com,7 example.org`: this costs a third of what separate rows cost. A
  // domain contains neither space nor comma.
  heads: db.prepare<{ rows: string | null }, [string, number, number]>(
    `SELECT (SELECT group_concat(sent || ' ' || domain) FROM (SELECT sent, domain FROM daily_figures WHERE account_id = ?2 AND day = wanted.value
       AND sent > 0 AND domain <> '' ORDER BY sent DESC, domain DESC LIMIT ?3)) AS rows FROM json_each(?1) wanted ORDER BY wanted.key`,
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
  const keys = listRowKeys(period.fromDay, period.toDay)
  for (let depth = Math.max(FIRST_DEPTH, limit); ; depth *= DEPTH_FACTOR) {
    const heads = await readHeads(db, accountId, keys, depth, yieldWhenDue)
    const candidates = findCandidates(heads, limit)
    await yieldWhenDue()
    if (!candidates) continue
    const results: DomainStats[] = []
    for (const domain of candidates) {
      results.push({ ...sumDomainStats(db, accountId, domain, period), domain })
      await yieldWhenDue()
    }
    return results.sort((a, b) => b.sent - a.sent || (a.domain < b.domain ? -1 : 1)).slice(0, limit)
  }
}

/** What the heads of the lists tell of a domain. */
interface KnownDomain {
  /** The sum of its counts. */
  sent: number
  /** The sum of the last counts of the lists that show it. */
  lastCounts: number
}

interface Heads {
  readonly domains: ReadonlyMap<string, KnownDomain>
  /** The sum of the last counts of all lists, which no domain that they do not show exceeds; 0 when all were read. */
  readonly unseen: number
  /** Whether no more may be read. */
  readonly isFull: boolean
}

async function readHeads(
  db: Database,
  accountId: number,
  keys: readonly number[],
  depth: number,
  yieldWhenDue: () => Promise<void>,
): Promise<Heads> {
  const domains = new Map<string, KnownDomain>()
  const listsPerBatch = Math.max(1, Math.floor(BATCH_SIZE / depth))
  let unseen = 0
  let rowCount = 0
  for (let from = 0; from < keys.length; from += listsPerBatch) {
    const batch = JSON.stringify(keys.slice(from, from + listsPerBatch))
    for (const { rows: text } of sql(db).heads.all(batch, accountId, depth)) {
      const rows = text?.split(',').map(parseRow) ?? []
      const lastCount = rows.length < depth ? 0 : (rows.at(-1)?.sent ?? 0)
      for (const { domain, sent } of rows) {
        const known = domains.get(domain)
        if (known) {
          known.sent += sent
          known.lastCounts += lastCount
        } else domains.set(domain, { sent, lastCounts: lastCount })
      }
      unseen += lastCount
      rowCount += rows.length
      await yieldWhenDue()
    }
  }
  return { domains, unseen, isFull: rowCount * DEPTH_FACTOR > MAX_ROWS }
}

/** `12 example.com`. */
function parseRow(text: string): { sent: number; domain: string } {
  const space = text.indexOf(' ')
  return { sent: Number(text.slice(0, space)), domain: text.slice(space + 1) }
}

/** The domains that can have the largest sums; undefined if they are too many, or a domain not shown can be one. */
function findCandidates({ domains, unseen, isFull }: Heads, limit: number): string[] | undefined {
  const sums = Float64Array.from(domains.values(), ({ sent }) => sent).sort()
  const threshold = sums.at(-limit) ?? 0
  const select = (isWanted: (known: KnownDomain) => boolean): string[] =>
    [...domains].filter(([, known]) => isWanted(known)).map(([domain]) => domain)
  if (isFull || unseen === 0) {
    const larger = select(({ sent }) => sent > threshold)
    return [
      ...larger,
      ...takeSmallest(
        select(({ sent }) => sent === threshold),
        limit - larger.length,
      ),
    ]
  }
  if (domains.size < limit || unseen >= threshold) return undefined
  const candidates = select(({ sent, lastCounts }) => sent + unseen - lastCounts >= threshold)
  return candidates.length <= 4 * limit + MAX_EXTRA_CANDIDATES ? candidates : undefined
}

/** The alphabetically first of many texts, without sorting all of them. */
function takeSmallest(texts: readonly string[], count: number): string[] {
  const first: string[] = []
  for (const text of texts) {
    if (first.length === count && text >= (first.at(-1) ?? '')) continue
    first.push(text)
    first.sort()
    if (first.length > count) first.pop()
  }
  return first
}
