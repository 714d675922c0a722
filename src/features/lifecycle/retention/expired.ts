/**
 * @module Deletes what is kept for a fixed time: rows of tables that state it (`kept`), and received messages as they
 * came in. Stores the time by which retention measures ages.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { findOldestWaitingRef } from '#features/receiving/inbound/process/queue.ts'
import { monthOfRef } from '#platform/content/read.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, minutes } from '#platform/units.ts'
import { removeInBatches } from './scan.ts'

/** Resolves with the number of rows deleted. Call it about every hour, one run at a time. */
export async function purgeExpired(app: App, signal: AbortSignal = new AbortController().signal): Promise<number> {
  let removed = 0
  for (const [table, { kept }] of TABLE_FACTS) {
    if (!kept) continue
    const until = Math.floor((app.confirmedNow() - days(kept.days)) / (kept.unitMs ?? 1))
    removed += await removeInBatches(app, signal, ({ db }, limit) => {
      const done = db.query(`DELETE FROM ${table} WHERE ${kept.since} <= ? LIMIT ?`).run(until, limit).changes
      return { done, next: done === limit ? 0 : undefined }
    })
  }
  return removed
}

/**
 * Drops the original form of received messages, by month; the parsed data stays. Never drops a month with an
 * unprocessed message. Resolves with the number of dropped months.
 */
export async function dropRawMail(app: App): Promise<number> {
  const before = (await recordConfirmedTime(app)) - days(app.config.inboundRawDays)
  const waiting = findOldestWaitingRef(app.db)
  // Months are counted from the year 0.
  const firstKept =
    waiting === undefined ? before : Date.UTC(Math.floor(monthOfRef(waiting) / 12), monthOfRef(waiting) % 12)
  return app.rawMail.dropMonthsBefore(Math.min(before, firstKept))
}

/** Shortest interval between two writes. */
const RECORD_INTERVAL_MS = minutes(10)
/** The next start compares the time with the clock; nothing else shows that a clock is days ahead. */
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
