/**
 * @module Stores opens and clicks after their answers have left: nobody waits for the disk, and a write that fails is only logged. What waits is
 * bounded; what comes beyond is dropped, because a count is worth less than the service.
 */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { minutes } from '#platform/units.ts'
import { type Engagement, engage } from './engage.ts'

export const MOST_WAITING = 10_000
/** A full disk or a flood lasts longer than a moment; the log must not fill with it. */
const LOG_INTERVAL_MS = minutes(1)

/** Gives the function that takes what was opened or clicked; it never throws and never waits. */
export function createRecorder(
  app: Pick<App, 'clock' | 'log' | 'eventTime'> & { readonly commit: Pick<App['commit'], 'write'> },
): (engagement: Engagement) => void {
  let waiting = 0
  let dropped = 0
  let loggedAt: Millis | undefined

  const lose = (error: unknown): void => {
    dropped++
    const now = app.clock.now()
    // Also when the clock was set back: what lies ahead is no reason to be silent.
    if (loggedAt !== undefined && now >= loggedAt && now - loggedAt < LOG_INTERVAL_MS) return
    loggedAt = now
    app.log.error({ err: error, dropped }, 'opens and clicks were not counted')
    dropped = 0
  }

  return (engagement) => {
    if (waiting >= MOST_WAITING) return lose(undefined)
    waiting++
    app.commit
      .write((tx) => engage(app, tx, engagement))
      .catch(lose)
      .finally(() => waiting--)
  }
}
