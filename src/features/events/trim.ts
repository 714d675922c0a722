/**
 * @module Removes the oldest events of an account. The feed then begins later, and says so; counters and daily figures stay. Sequence numbers are never
 * given again.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { raiseHorizon } from './horizon.ts'

const sql = prepared((db) => ({
  accountAfter: db.prepare<{ accountId: number }, [number]>(
    'SELECT account_id AS accountId FROM event_sequences WHERE account_id > ? ORDER BY account_id LIMIT 1',
  ),
  // Times never go back along the numbers of an account.
  oldest: db.prepare<{ seq: number; at: Millis }, [number, number]>(
    'SELECT seq, at FROM events WHERE account_id = ? ORDER BY seq LIMIT ?',
  ),
  deleteUpTo: db.prepare('DELETE FROM events WHERE account_id = ? AND seq <= ?'),
  oldCounters: db.prepare<{ metric: string; hour: number }, [number, string, number, number]>(
    'SELECT metric, hour FROM counters WHERE account_id = ? AND (metric, hour) > (?, ?) ORDER BY metric, hour LIMIT ?',
  ),
  deleteCounter: db.prepare('DELETE FROM counters WHERE account_id = ? AND metric = ? AND hour = ?'),
  deleteEmptyCounter: db.prepare('DELETE FROM counters WHERE account_id = ? AND metric = ? AND hour = ? AND value = 0'),
}))

/** The next account that ever had an event. */
export const accountWithEventsAfter = (db: Database, accountId: number): number | undefined =>
  sql(db).accountAfter.get(accountId)?.accountId

/** Which events may go. */
export interface EventBound {
  /** Those from before this time. */
  readonly before: Millis
  /** Of them only those up to this number, because a webhook is still to be told of the next. */
  readonly upTo: number
  /** Those from before this time whoever waits for them. */
  readonly anyBefore: Millis
}

/** Removes up to `limit` of the oldest events of an account. False when there is nothing more to remove. */
export function trimEvents(tx: Tx, accountId: number, bound: EventBound, limit: number): boolean {
  const rows = sql(tx.db).oldest.all(accountId, limit)
  const firstKept = rows.findIndex(
    ({ seq, at }) => at >= bound.before || (seq > bound.upTo && at >= bound.anyBefore),
  )
  const old = firstKept < 0 ? rows : rows.slice(0, firstKept)
  const last = old.at(-1)
  if (!last) return false
  raiseHorizon(tx, 'events', bound.before)
  sql(tx.db).deleteUpTo.run(accountId, last.seq)
  return old.length === limit
}

export interface CounterPlace {
  readonly metric: string
  readonly hour: number
}

/** Before all counters of an account. */
export const FIRST_COUNTER: CounterPlace = { metric: '', hour: -1 }

/** Beginnings of the names of counters that tell what happened in an hour; the others say what is there now. */
const HISTORY = ['event:', 'sandbox:', 'stream:', 'complaint:', 'machine:']

/**
 * Looks at up to `limit` counters of an account after a place: those of an hour before `hour` go when they tell what happened in it, or when they are zero.
 * Returns how far it came; undefined: there are no more.
 */
export function trimCounters(
  tx: Tx,
  accountId: number,
  after: CounterPlace,
  hour: number,
  limit: number,
): CounterPlace | undefined {
  const { oldCounters, deleteCounter, deleteEmptyCounter } = sql(tx.db)
  const rows = oldCounters.all(accountId, after.metric, after.hour, limit)
  for (const row of rows) {
    // Totals that have no hour are kept under hour 0.
    if (row.hour === 0 || row.hour >= hour) continue
    const isHistory = HISTORY.some((beginning) => row.metric.startsWith(beginning))
    const statement = isHistory ? deleteCounter : deleteEmptyCounter
    statement.run(accountId, row.metric, row.hour)
  }
  return rows.length < limit ? undefined : rows.at(-1)
}
