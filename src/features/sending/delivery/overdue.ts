/**
 * @module Mail that was put off under a clock that was ahead: no retry ladder and no rest lets it wait so long, so it is due. Looked for at the start and
 * when the clock was set back. Never touches scheduled mail, which may wait for a year.
 */
import type { App } from '#features/core/app/app.ts'
import { type DistantRecipient, makeDue, type QueuePosition, readDistant } from '#features/sending/queue/queue.ts'
import { type Millis, yieldToEventLoop } from '#platform/clock.ts'
import { isBeyondRetrySchedule, MAX_SITE_BACKOFF_MS } from './retry-schedule.ts'
import { CONTENT_HOLD_MS } from './without-content.ts'

/** Recipients read in one go, and written in one transaction. */
const BATCH_SIZE = 500

/** Makes due what waits longer than it may. Reads the whole queue, and writes only that. @param signal no further batch is begun once it is aborted */
export async function releaseOverdueMail(app: App, signal: AbortSignal): Promise<void> {
  let released = 0
  let place: QueuePosition | undefined = { lane: '', nextAt: 0, id: 0 }
  while (place && !signal.aborted) {
    const now = app.clock.now()
    // Nothing that is due before that can be beyond the ladder.
    const batch = readDistant(app.db, { limitAt: now + MAX_SITE_BACKOFF_MS, place, limit: BATCH_SIZE })
    const overdue = batch.late.filter((recipient) => isBeyondMaxWait(recipient, now))
    if (overdue.length > 0) {
      released += await app.commit.writeFromReserve((tx) => makeDue(tx, overdue, now))
      for (const lane of new Set(overdue.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    } else await yieldToEventLoop()
    place = batch.place
  }
  if (released > 0) app.log.warn({ recipients: released }, 'mail was put off by a clock that was ahead; it is due now')
}

const isBeyondMaxWait = ({ nextAt, attempts, isWithoutContent }: DistantRecipient, now: Millis): boolean =>
  isWithoutContent ? nextAt - now > CONTENT_HOLD_MS : isBeyondRetrySchedule(nextAt, now, attempts)
