/**
 * @module Drops the original form of received messages, by month; the parsed data stays. Never drops a month with an
 * unprocessed message.
 */
import type { App } from '#features/core/app/app.ts'
import { findOldestWaitingRef } from '#features/receiving/inbound/process/queue.ts'
import { monthOfRef } from '#platform/content/read.ts'
import { days } from '#platform/units.ts'
import { recordConfirmedTime } from './confirmed-time.ts'

/** Resolves with the number of dropped months. */
export async function dropRawMail(app: App): Promise<number> {
  const before = (await recordConfirmedTime(app)) - days(app.config.inboundRawDays)
  const waiting = findOldestWaitingRef(app.db)
  // Months are counted from the year 0.
  const firstKept =
    waiting === undefined ? before : Date.UTC(Math.floor(monthOfRef(waiting) / 12), monthOfRef(waiting) % 12)
  return app.rawMail.dropMonthsBefore(Math.min(before, firstKept))
}
