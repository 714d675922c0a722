/**
 * @module Stores the horizon of each kind of rows: all rows from this time on still exist. Retention may have deleted
 * older ones by age or by budget, so sums over rows are compared with counters only from here on.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { hours } from '#platform/units.ts'
import { getMeta, setMeta } from './record.ts'

/** events: rows of the event log. logs: emails with their recipients and dependent rows, broadcasts and operations. */
export const HORIZON_KINDS = ['events', 'logs'] as const
export type HorizonKind = (typeof HORIZON_KINDS)[number]

const HOUR_MS = hours(1)

/** Its key in `meta`. */
export const toHorizonKey = (kind: HorizonKind): string => `retention:${kind}`

/** The full hour from which on every row of the kind exists; 0 if nothing was ever deleted. */
export const readHorizon = (db: Database, kind: HorizonKind): Millis => Number(getMeta(db, toHorizonKey(kind)) ?? 0)

/** Records that rows from before `time` may be deleted from this transaction on. The horizon never moves back. */
export function raiseHorizon(tx: Tx, kind: HorizonKind, time: Millis): void {
  const hour = Math.ceil(time / HOUR_MS) * HOUR_MS
  if (hour > readHorizon(tx.db, kind)) setMeta(tx.db, toHorizonKey(kind), String(hour))
}
