/**
 * @module Finds mail that was deferred under a fast clock and therefore waits longer than the retry schedule and any
 * backoff allow, and makes it due. Runs at the start and when the clock is set back. Never touches scheduled mail,
 * which may wait for a year.
 */
import type { App } from '#features/core/app/app.ts'
import { type DistantRecipient, makeDue, type QueuePosition, readDistant } from '#features/sending/queue/queue.ts'
import { type Millis, yieldToEventLoop } from '#platform/clock.ts'
import { isBeyondRetrySchedule, MAX_SITE_BACKOFF_MS } from './retry-schedule.ts'
import { CONTENT_HOLD_MS } from './without-content.ts'

/** Recipients read at once and written in one transaction. */
const BATCH_SIZE = 500

/**
 * Makes recipients due that wait longer than allowed. Reads the whole queue, but writes only those.
 * @param signal once aborted, no further batch begins
 */
export async function releaseOverdueMail(app: App, signal: AbortSignal): Promise<void> {
  let released = 0
  let place: QueuePosition | undefined = { lane: '', nextAt: 0, id: 0 }
  while (place && !signal.aborted) {
    const now = app.clock.now()
    // Mail due within this time cannot exceed the retry schedule.
    const batch = readDistant(app.db, { limitAt: now + MAX_SITE_BACKOFF_MS, place, limit: BATCH_SIZE })
    const overdue = batch.late.filter((recipient) => isBeyondMaxWait(recipient, now))
    if (overdue.length > 0) {
      released += await app.commit.writeFromReserve((tx) => makeDue(tx, overdue, now))
      for (const lane of new Set(overdue.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    } else await yieldToEventLoop()
    place = batch.place
  }
  if (released > 0) app.log.warn({ recipients: released }, 'released mail that a fast clock had deferred')
}

const isBeyondMaxWait = ({ nextAt, attempts, isWithoutContent }: DistantRecipient, now: Millis): boolean =>
  isWithoutContent ? nextAt - now > CONTENT_HOLD_MS : isBeyondRetrySchedule(nextAt, now, attempts)
