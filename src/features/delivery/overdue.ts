/**
 * @module Mail that was put off under a clock that was ahead: no retry ladder and no rest lets it wait so long, so it is due. Looked for at the start and
 * when the clock was set back. Never touches scheduled mail, which may wait for a year.
 */
import type { App } from '#features/app.ts'
import { makeDue, openLanes, type QueuePlace } from '../emails/queue.ts'
import { isBeyondLadder, MAX_SITE_REST_MS } from './retry.ts'

/** Recipients looked at in one transaction. */
const BATCH_SIZE = 500

/** Makes due what waits longer than it may. @param signal no further batch is begun once it is aborted */
export async function makeOverdueDue(app: App, signal: AbortSignal): Promise<void> {
  let overdue = 0
  for (const { lane } of openLanes(app.db)) {
    // Nothing that is due before that can be beyond the ladder.
    let place: QueuePlace | undefined = { nextAt: app.clock.now() + MAX_SITE_REST_MS, id: 0 }
    while (place && !signal.aborted) {
      const after: QueuePlace = place
      const batch = await app.commit.writeFromReserve((tx) => {
        const now = app.clock.now()
        const isDue = ({ attempts, nextAt }: { attempts: number; nextAt: number }) =>
          isBeyondLadder(nextAt, now, attempts)
        return makeDue(tx, lane, { now, place: after, limit: BATCH_SIZE, isDue })
      })
      if (batch.count > 0) app.mailDue.emit({ lane, at: app.clock.now() })
      overdue += batch.count
      place = batch.place
    }
  }
  if (overdue > 0) app.log.warn({ recipients: overdue }, 'mail was put off by a clock that was ahead; it is due now')
}
