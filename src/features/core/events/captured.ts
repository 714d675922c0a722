/**
 * @module Counts events of captured mail by hour, beside the counters of all events: what is left is mail that was
 * really sent. Databases of earlier versions lack the counters of their past, so the first hour that is complete is
 * stored.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { count, getMeta, hourOf, setMeta } from './record.ts'

/** Types that stats by hour need; deliveries of captured mail have the counter `sandbox:delivered`. */
export const CAPTURED_TYPES = ['bounced', 'opened', 'clicked', 'unsubscribed'] as const
export type CapturedType = (typeof CAPTURED_TYPES)[number]

/** Prefix of the counters. */
export const CAPTURED_PREFIX = 'captured:'

export const toCapturedMetric = (type: CapturedType): string => `${CAPTURED_PREFIX}${type}`

/** Counts an event of captured mail. */
export const countCaptured = (tx: Tx, accountId: number, type: CapturedType, at: Millis): void =>
  count(tx, accountId, toCapturedMetric(type), at, 1)

/** Key in `meta` of the first hour from which the counters are complete. */
export const CAPTURED_FROM_KEY = 'captured_counters_from'

const sql = prepareStatements((db) => ({
  anyEvent: db.prepare<{ one: number }, []>('SELECT 1 AS one FROM event_sequences LIMIT 1'),
}))

/** Stores that hour at the first start of a version that has these counters. */
export function storeCapturedFrom(db: Database, now: Millis): void {
  if (getMeta(db, CAPTURED_FROM_KEY) !== undefined) return
  const hasEvents = sql(db).anyEvent.get() !== null
  setMeta(db, CAPTURED_FROM_KEY, String(hasEvents ? hourOf(now) + 1 : 0))
}
