/**
 * @module Stores opens and clicks after their answers have left: nobody waits for the disk. A write that a locked
 * database refuses is tried again for a minute; one that fails otherwise is only logged. What waits is bounded; what
 * comes beyond is dropped, because a count is worth less than the service.
 */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import { retry } from '#platform/queue/retry.ts'
import { isDiskFull, isTransientError } from '#platform/storage-errors.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type Engagement, recordEngagement } from './engage.ts'

export const MAX_WAITING = 10_000
/** A full disk or a flood lasts longer than a moment; the log must not fill with it. */
const LOG_INTERVAL_MS = minutes(1)
const MAX_ATTEMPTS = 6
const RETRY_DELAY_MS = seconds(10)

/** Gives the function that takes what was opened or clicked; it never throws and never waits. */
export function createRecorder(
  app: Pick<App, 'clock' | 'log' | 'eventTime'> & { readonly commit: Pick<App['commit'], 'write'> },
): (engagement: Engagement) => void {
  let waitingCount = 0
  let droppedCount = 0
  let loggedAt: Millis | undefined

  const drop = (error: unknown): void => {
    droppedCount++
    const now = app.clock.now()
    // Also when the clock was set back: what lies ahead is no reason to be silent.
    if (loggedAt !== undefined && now >= loggedAt && now - loggedAt < LOG_INTERVAL_MS) return
    loggedAt = now
    app.log.error({ err: error, dropped: droppedCount }, 'opens and clicks were not counted')
    droppedCount = 0
  }

  const store = (engagement: Engagement): Promise<unknown> =>
    retry(() => app.commit.write((tx) => recordEngagement(app, tx, engagement)), {
      clock: app.clock,
      delayMs: RETRY_DELAY_MS,
      // A full disk lasts longer than is worth waiting for.
      isRetried: (error, failures) => failures < MAX_ATTEMPTS && !isDiskFull(error) && isTransientError(error),
    })

  return (engagement) => {
    if (waitingCount >= MAX_WAITING) return drop(undefined)
    waitingCount++
    store(engagement)
      .catch(drop)
      .finally(() => waitingCount--)
  }
}
