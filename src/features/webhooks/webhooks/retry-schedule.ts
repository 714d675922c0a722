/** @module The retry schedule of webhook attempts that got no response or a 5xx. Pure. */
import { minutes, seconds } from '#platform/units.ts'

/** Delays after the first, second, third and fourth attempt; the fifth is the last. */
const RETRY_DELAYS_MS = [minutes(15), minutes(30), minutes(60), minutes(120)] as const
const JITTER_MS = seconds(5)

/** No attempt is scheduled further ahead. */
export const MAX_DELAY_MS = RETRY_DELAYS_MS[3] + JITTER_MS

export const MAX_ATTEMPTS = RETRY_DELAYS_MS.length + 1

/** Consecutive failed attempts, over all events, after which a webhook is deactivated. */
export const MAX_CONSECUTIVE_FAILURES = 10

/**
 * Delay after attempt number `attempts`; undefined when that was the last.
 * @param fraction of the jitter, 0 to 1
 */
export function computeRetryDelayMs(attempts: number, fraction: number): number | undefined {
  const delay = RETRY_DELAYS_MS[attempts - 1]
  return delay === undefined ? undefined : delay + Math.round(fraction * JITTER_MS)
}
