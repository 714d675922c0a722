/**
 * @module Finds mail that was deferred under a fast clock and therefore waits longer than the retry schedule, any
 * backoff and the reply to its last attempt allow, and makes it due. Runs at the start and when the clock is set back.
 * Never touches scheduled mail, which may wait for a year.
 */
import type { App } from '#features/core/app/app.ts'
import { type DistantRecipient, makeDue, type QueuePosition, readDistant } from '#features/sending/queue/queue.ts'
import { type Millis, yieldToEventLoop } from '#platform/time/clock.ts'
import { findNamedWait } from '../verdict/reply-wait.ts'
import { isBeyondRetrySchedule, MAX_SITE_BACKOFF_MS } from '../verdict/retry-schedule.ts'
import { CONTENT_HOLD_MS } from '../verdict/without-content.ts'

/** Recipients read at once and written in one transaction. */
const BATCH_SIZE = 500

/**
 * Finds recipients that wait longer than allowed and makes them due. Reads the whole queue, but writes only these
 * recipients.
 * @param signal once aborted, no further batch begins
 */
export async function releaseOverdueMail(app: App, signal: AbortSignal): Promise<void> {
  let released = 0
  let place: QueuePosition | undefined = { lane: '', nextAt: 0, id: 0 }
  while (place && !signal.aborted) {
    const now = app.clock.now()
    // Mail that is due within this time never waits longer than allowed, so it is not read.
    const batch = readDistant(app.db, { limitAt: now + MAX_SITE_BACKOFF_MS, place, limit: BATCH_SIZE })
    const overdue = batch.late.filter((recipient) => isBeyondMaxWait(recipient, now))
    if (overdue.length > 0) {
      released += await app.commit.writeFromReserve((tx) => makeDue(tx, overdue, now))
      for (const lane of new Set(overdue.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    } else await yieldToEventLoop()
    place = batch.place
  }
  if (released > 0)
    app.log.warn(
      { recipients: released },
      'made mail due that waits longer than its retry schedule: a fast clock or a hold had deferred it',
    )
}

const isBeyondMaxWait = ({ nextAt, attempts, isWithoutContent, reply }: DistantRecipient, now: Millis): boolean =>
  isWithoutContent
    ? nextAt - now > CONTENT_HOLD_MS
    : isBeyondRetrySchedule(nextAt, now, attempts) && nextAt - now > (findNamedWait(reply ?? '') ?? 0)
