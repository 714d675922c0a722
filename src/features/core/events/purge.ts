/**
 * @module Deletes the oldest events and counters of an account. The feed then begins with a later event; daily
 * statistics stay. Sequence numbers are never reused. Stores the horizon of each kind of row: the time from which on all
 * rows still exist. Retention may have deleted older ones, because of their age or to stay within a storage budget, so
 * counters are compared with sums over rows only from the horizon on. Turns the events of an erased person into
 * tombstones: number, type, time and email of an event stay, so that the feed has no gap and counters still agree.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { hours, type Millis } from '#platform/units.ts'
import { CAPTURED_PREFIX, type EventData, getMeta, setMeta } from './record.ts'

// Hour 0 holds totals without an hour.
const OLD_HOURS_SQL = 'SELECT hour FROM counters WHERE account_id = ?1 AND metric = ?2 AND hour > 0 AND hour < ?3'

const sql = prepareStatements((db) => ({
  accountAfter: db.prepare<{ accountId: number }, [number]>(
    'SELECT account_id AS accountId FROM event_sequences WHERE account_id > ? ORDER BY account_id LIMIT 1',
  ),
  // Times never decrease along the sequence numbers of an account.
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
  ofEmail: db.prepare<{ seq: number; recipientId: number | null; data: string }, [number, number]>(
    'SELECT seq, recipient_id AS recipientId, data FROM events WHERE email_id = ? AND account_id = ? AND data IS NOT NULL',
  ),
  setData: db.prepare('UPDATE events SET data = ? WHERE account_id = ? AND seq = ?'),
}))

/** The next account that ever had an event. */
export const findAccountWithEventsAfter = (db: Database, accountId: number): number | undefined =>
  sql(db).accountAfter.get(accountId)?.accountId

/** Which events may be deleted. */
export interface EventPurgeLimit {
  /** Events older than this may be deleted, if no webhook waits for them. */
  readonly before: Millis
  /** Number of the last event for which no webhook waits any more. */
  readonly upTo: number
  /** Events older than this are deleted even if a webhook still has to deliver them. */
  readonly anyBefore: Millis
}

/** Whether the account's oldest event is older than a time. */
export const hasOldEvents = (db: Database, accountId: number, before: Millis): boolean =>
  (sql(db).oldest.get(accountId, 1)?.at ?? Number.POSITIVE_INFINITY) < before

/** Deletes up to `limit` of the account's oldest events; returns how many it deleted. */
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

/** Rates cover the last weeks, stats a year: hourly counters are kept at least this long. */
export const COUNTER_RETENTION_DAYS = 400

/** Prefixes of counters that record history by hour; all others hold current totals. */
const HISTORY_PREFIXES = [
  'event:',
  'sandbox:',
  CAPTURED_PREFIX,
  'stream:',
  'account:',
  'complaint:',
  'machine:',
  'first:',
]

/** The next counter name of an account after `metric` (`''` for the first); undefined after the last. */
export const findCounterAfter = (db: Database, accountId: number, metric: string): string | undefined =>
  sql(db).metricAfter.get(accountId, metric)?.metric

/** Whether a counter has values that `purgeCounter` deletes. */
export const hasOldCounter = (db: Database, accountId: number, metric: string, hour: number): boolean =>
  chooseStatements(db, metric).first.get(accountId, metric, hour) !== null

/**
 * Deletes up to `limit` hourly values of one counter from before a given hour: all values of a history counter, only
 * zeros of any other counter. Totals without an hour stay.
 */
export function purgeCounter(tx: Tx, accountId: number, metric: string, hour: number, limit: number): void {
  chooseStatements(tx.db, metric).remove.run(accountId, metric, hour, limit)
}

function chooseStatements(db: Database, metric: string) {
  const { firstOld, firstEmpty, deleteOld, deleteEmpty } = sql(db)
  const isHistory = HISTORY_PREFIXES.some((beginning) => metric.startsWith(beginning))
  return isHistory ? { first: firstOld, remove: deleteOld } : { first: firstEmpty, remove: deleteEmpty }
}

/** events: rows of the event log. logs: emails with their recipients and dependent rows, broadcasts and operations. */
export type HorizonKind = 'events' | 'logs'

const HOUR_MS = hours(1)

/** Key of the horizon in `meta`. */
export const toHorizonKey = (kind: HorizonKind): string => `retention:${kind}`

/** The full hour from which on every row of the kind exists; 0 if nothing was ever deleted. */
export const readHorizon = (db: Database, kind: HorizonKind): Millis => Number(getMeta(db, toHorizonKey(kind)) ?? 0)

/** Records that rows from before `time` may be deleted from this transaction on. The horizon never moves back. */
export function raiseHorizon(tx: Tx, kind: HorizonKind, time: Millis): void {
  const hour = Math.ceil(time / HOUR_MS) * HOUR_MS
  if (hour > readHorizon(tx.db, kind)) setMeta(tx.db, toHorizonKey(kind), String(hour))
}

/**
 * Types, categories, a time, and identifiers of streams and of our own records. Statistics are recounted from
 * `bounce_type`.
 */
const IMPERSONAL_FIELDS: ReadonlySet<string> = new Set<keyof EventData>([
  'bounce_type',
  'bounce_category',
  'rule',
  'suppression',
  'next_retry_at',
  'feedback_type',
  'stream',
  'list_id',
  'scope',
  'inbound_email_id',
  'mailbox_id',
  'mailbox_message_id',
])

/**
 * Erases the data of an email's events: of all events that concern the given recipients or no particular recipient, and
 * of any other event whose data matches. Returns the numbers of the changed events.
 * @param which.matches whether a text, which is JSON, concerns the person
 */
export function eraseEvents(
  tx: Tx,
  which: {
    readonly accountId: number
    readonly emailId: number
    readonly recipientIds: readonly number[]
    readonly matches: (text: string) => boolean
  },
): number[] {
  const changed: number[] = []
  for (const { seq, recipientId, data } of sql(tx.db).ofEmail.all(which.emailId, which.accountId)) {
    if (recipientId !== null && !which.recipientIds.includes(recipientId) && !which.matches(data)) continue
    const impersonal = Object.entries(JSON.parse(data) as EventData).filter(
      ([name, value]) => IMPERSONAL_FIELDS.has(name) && !which.matches(String(value)),
    )
    const remaining = impersonal.length === 0 ? null : JSON.stringify(Object.fromEntries(impersonal))
    if (remaining === data) continue
    sql(tx.db).setData.run(remaining, which.accountId, seq)
    changed.push(seq)
  }
  return changed
}
