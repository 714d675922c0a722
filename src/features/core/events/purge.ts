/**
 * @module Removes the oldest events of an account. The feed then begins later, and says so; counters and daily figures stay. Sequence numbers are never
 * given again.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { raiseHorizon } from './horizon.ts'

// Totals that have no hour are kept under hour 0.
const OLD_HOURS_SQL = 'SELECT hour FROM counters WHERE account_id = ?1 AND metric = ?2 AND hour > 0 AND hour < ?3'

const sql = prepareStatements((db) => ({
  accountAfter: db.prepare<{ accountId: number }, [number]>(
    'SELECT account_id AS accountId FROM event_sequences WHERE account_id > ? ORDER BY account_id LIMIT 1',
  ),
  // Times never go back along the numbers of an account.
  oldest: db.prepare<{ seq: number; at: Millis }, [number, number]>(
    'SELECT seq, at FROM events WHERE account_id = ? ORDER BY seq LIMIT ?',
  ),
  deleteUpTo: db.prepare('DELETE FROM events WHERE account_id = ? AND seq <= ?'),
  metricAfter: db.prepare<{ metric: string }, [number, string]>(
    'SELECT metric FROM counters WHERE account_id = ? AND metric > ? ORDER BY metric LIMIT 1',
  ),
  firstOld: db.prepare<{ hour: number }, [number, string, number]>(`${OLD_HOURS_SQL} LIMIT 1`),
  firstEmpty: db.prepare<{ hour: number }, [number, string, number]>(`${OLD_HOURS_SQL} AND value = 0 LIMIT 1`),
  deleteOld: db.prepare(
    `DELETE FROM counters WHERE account_id = ?1 AND metric = ?2 AND hour IN (${OLD_HOURS_SQL} LIMIT ?4)`,
  ),
  deleteEmpty: db.prepare(
    `DELETE FROM counters WHERE account_id = ?1 AND metric = ?2 AND hour IN (${OLD_HOURS_SQL} AND value = 0 LIMIT ?4)`,
  ),
}))

/** The next account that ever had an event. */
export const findAccountWithEventsAfter = (db: Database, accountId: number): number | undefined =>
  sql(db).accountAfter.get(accountId)?.accountId

/** Which events may go. */
export interface EventPurgeLimit {
  /** Those from before this time. */
  readonly before: Millis
  /** Of them only those up to this number, because a webhook is still to be told of the next. */
  readonly upTo: number
  /** Those from before this time whoever waits for them. */
  readonly anyBefore: Millis
}

/** Whether the oldest event of an account is from before a time. */
export const hasOldEvents = (db: Database, accountId: number, before: Millis): boolean =>
  (sql(db).oldest.get(accountId, 1)?.at ?? Number.POSITIVE_INFINITY) < before

/** Removes up to `limit` of the oldest events of an account; returns how many. */
export function purgeEvents(tx: Tx, accountId: number, limits: EventPurgeLimit, limit: number): number {
  const rows = sql(tx.db).oldest.all(accountId, limit)
  const firstKept = rows.findIndex(
    ({ seq, at }) => at >= limits.before || (seq > limits.upTo && at >= limits.anyBefore),
  )
  const old = firstKept < 0 ? rows : rows.slice(0, firstKept)
  const last = old.at(-1)
  if (!last) return 0
  raiseHorizon(tx, 'events', limits.before)
  sql(tx.db).deleteUpTo.run(accountId, last.seq)
  return old.length
}

/** Beginnings of the names of counters that tell what happened in an hour; the others say what is there now. */
const HISTORY_PREFIXES = ['event:', 'sandbox:', 'stream:', 'account:', 'complaint:', 'machine:']

/** The name of the next counter of an account, in order; undefined after the last. Before all is `''`. */
export const findCounterAfter = (db: Database, accountId: number, metric: string): string | undefined =>
  sql(db).metricAfter.get(accountId, metric)?.metric

/** Whether a counter has values that `purgeCounter` removes. */
export const hasOldCounter = (db: Database, accountId: number, metric: string, hour: number): boolean =>
  chooseStatements(db, metric).first.get(accountId, metric, hour) !== null

/**
 * Removes up to `limit` values of one counter from before an hour: all when it tells what happened, else those that are zero. Totals without an hour
 * stay.
 */
export function purgeCounter(tx: Tx, accountId: number, metric: string, hour: number, limit: number): void {
  chooseStatements(tx.db, metric).remove.run(accountId, metric, hour, limit)
}

function chooseStatements(db: Database, metric: string) {
  const { firstOld, firstEmpty, deleteOld, deleteEmpty } = sql(db)
  const isHistory = HISTORY_PREFIXES.some((beginning) => metric.startsWith(beginning))
  return isHistory ? { first: firstOld, remove: deleteOld } : { first: firstEmpty, remove: deleteEmpty }
}
