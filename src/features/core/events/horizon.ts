/**
 * @module How far back the rows of a kind are all there. What is older may be gone by age or by budget: sums over such rows are compared with their
 * counters only from here on.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { hours } from '#platform/units.ts'
import { getMeta, setMeta } from './record.ts'

/** events: rows of the event log. logs: emails, their recipients and all that hangs on them, broadcasts and operations. */
export const HORIZON_KINDS = ['events', 'logs'] as const
export type HorizonKind = (typeof HORIZON_KINDS)[number]

const HOUR_MS = hours(1)

/** Under which it is kept in `meta`. */
export const toHorizonKey = (kind: HorizonKind): string => `retention:${kind}`

/** Time from which on every row of the kind is there, a full hour; 0: nothing was ever removed. */
export const readHorizon = (db: Database, kind: HorizonKind): Millis => Number(getMeta(db, toHorizonKey(kind)) ?? 0)

/** Notes that rows from before `time` may be gone from this transaction on. Never goes back. */
export function raiseHorizon(tx: Tx, kind: HorizonKind, time: Millis): void {
  const hour = Math.ceil(time / HOUR_MS) * HOUR_MS
  if (hour > readHorizon(tx.db, kind)) setMeta(tx.db, toHorizonKey(kind), String(hour))
}
