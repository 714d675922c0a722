/** @module Deletes what is kept for a fixed time: rows of tables that state it (`kept`), and received messages as they came in. */
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { findOldestWaitingRef } from '#features/receiving/inbound/process/queue.ts'
import { monthOfRef } from '#platform/content/read.ts'
import { days } from '#platform/units.ts'
import { removeInBatches } from './batches.ts'
import { recordConfirmedTime } from './confirmed-time.ts'

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
