/**
 * @module Stores opens and clicks after their responses were sent, so no reader waits for the disk. When a write fails
 * because the database is locked, retries it for a minute; logs other failures. The number of pending writes is
 * limited; further ones are dropped, because availability matters more than a count.
 */
import type { App } from '#features/core/app/app.ts'
import { isDiskFull, isTransientError } from '#platform/disk/storage-errors.ts'
import { retry } from '#platform/queue/retry.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type Engagement, recordEngagement } from './engage.ts'

export const MAX_WAITING = 10_000
/** Minimum time between log lines: a full disk or a flood lasts a while and must not fill the log. */
const LOG_INTERVAL_MS = minutes(1)
const MAX_ATTEMPTS = 6
const RETRY_DELAY_MS = seconds(10)

/** Returns the function that records an open or a click; it never throws and never blocks. */
export function createRecorder(
  app: Pick<App, 'clock' | 'log' | 'eventTime'> & { readonly commit: Pick<App['commit'], 'write'> },
): (engagement: Engagement) => void {
  let waitingCount = 0
  let droppedCount = 0
  let loggedAt: Millis | undefined

  const drop = (error: unknown): void => {
    droppedCount++
    const now = app.clock.now()
    // Also logs if the clock was set back: otherwise a `loggedAt` in the future would silence the log.
    if (loggedAt !== undefined && now >= loggedAt && now - loggedAt < LOG_INTERVAL_MS) return
    loggedAt = now
    app.log.error({ err: error, dropped: droppedCount }, 'opens and clicks not counted')
    droppedCount = 0
  }

  const store = (engagement: Engagement): Promise<unknown> =>
    retry(() => app.commit.write((tx) => recordEngagement(app, tx, engagement)), {
      clock: app.clock,
      delayMs: RETRY_DELAY_MS,
      // Does not retry on a full disk, because the disk stays full for longer than the retries last.
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
