/**
 * @module Stores the time by which retention measures ages. The next start compares it with the clock; nothing else
 * shows that a clock is days ahead.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'

/** Shortest interval between two writes. */
const RECORD_INTERVAL_MS = minutes(10)
const KEY = 'retention:looked_at'

/** Returns `App.confirmedNow()` and stores it. Must be called at least hourly. */
export async function recordConfirmedTime(app: App): Promise<Millis> {
  const now = app.confirmedNow()
  if (Math.abs(now - (readConfirmedTime(app.db) ?? 0)) >= RECORD_INTERVAL_MS)
    await app.commit.writeFromReserve((tx) => setMeta(tx.db, KEY, String(now)))
  return now
}

/** The time stored last; undefined in a new data directory. */
export function readConfirmedTime(db: Database): Millis | undefined {
  const noted = getMeta(db, KEY)
  return noted === undefined ? undefined : Number(noted)
}
