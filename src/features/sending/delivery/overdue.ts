/**
 * @module Mail that was put off under a clock that was ahead: no retry ladder and no rest lets it wait so long, so it is due. Looked for at the start and
 * when the clock was set back. Never touches scheduled mail, which may wait for a year.
 */
import type { App } from '#features/core/app/app.ts'
import { type LateRecipient, makeDue, type QueuePlace, readLate } from '#features/sending/queue/queue.ts'
import { giveWay, type Millis } from '#platform/clock.ts'
import { isBeyondLadder, MAX_SITE_REST_MS } from './retry.ts'
import { CONTENT_HOLD_MS } from './without-content.ts'

/** Recipients read in one go, and written in one transaction. */
const BATCH_SIZE = 500

/** Makes due what waits longer than it may. Reads the whole queue, and writes only that. @param signal no further batch is begun once it is aborted */
export async function makeOverdueDue(app: App, signal: AbortSignal): Promise<void> {
  let overdue = 0
  let place: QueuePlace | undefined = { lane: '', nextAt: 0, id: 0 }
  while (place && !signal.aborted) {
    const now = app.clock.now()
    // Nothing that is due before that can be beyond the ladder.
    const batch = readLate(app.db, { limitAt: now + MAX_SITE_REST_MS, place, limit: BATCH_SIZE })
    const beyond = batch.late.filter((recipient) => isBeyondLongestWait(recipient, now))
    if (beyond.length > 0) {
      overdue += await app.commit.writeFromReserve((tx) => makeDue(tx, beyond, now))
      for (const lane of new Set(beyond.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    } else await giveWay()
    place = batch.place
  }
  if (overdue > 0) app.log.warn({ recipients: overdue }, 'mail was put off by a clock that was ahead; it is due now')
}

const isBeyondLongestWait = ({ nextAt, attempts, isWithoutContent }: LateRecipient, now: Millis): boolean =>
  isWithoutContent ? nextAt - now > CONTENT_HOLD_MS : isBeyondLadder(nextAt, now, attempts)
