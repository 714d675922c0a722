/**
 * @module The time by which things go for their age, noted for the next start: that a clock is days ahead is only seen against the last run.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import { minutes } from '#platform/units.ts'

/** It is not noted more often. */
const RECORD_INTERVAL_MS = minutes(10)
const KEY = 'retention:looked_at'

/** `App.provenNow()`, noted. To be asked every hour or more often. */
export async function recordConfirmedTime(app: App): Promise<Millis> {
  const now = app.confirmedNow()
  if (Math.abs(now - (readConfirmedTime(app.db) ?? 0)) >= RECORD_INTERVAL_MS)
    await app.commit.writeFromReserve((tx) => setMeta(tx.db, KEY, String(now)))
  return now
}

/** What was noted last; undefined in a new data directory. */
export function readConfirmedTime(db: Database): Millis | undefined {
  const noted = getMeta(db, KEY)
  return noted === undefined ? undefined : Number(noted)
}
