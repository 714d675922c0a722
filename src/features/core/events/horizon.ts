/**
 * @module Stores the horizon of each kind of row: the time from which on all rows still exist. Retention may have
 * deleted older rows, because of their age or to stay within a storage budget, so counters are compared with sums
 * over rows only from the horizon on.
 */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import { getMeta, setMeta } from './record.ts'

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
