/** @module When an event is tried again after an attempt that may be repeated, and when its webhook is. Pure. */
import type { BackoffDelays } from '#platform/queue/backoff.ts'
import { minutes, seconds } from '#platform/units.ts'

/** Delays after the first, second, third and fourth attempt; the fifth is the last. */
const RETRY_DELAYS_MS = [minutes(15), minutes(30), minutes(60), minutes(120)] as const
const JITTER_MS = seconds(5)

/** Limit for a wait that an endpoint asks for. */
export const MAX_RETRY_AFTER_MS = RETRY_DELAYS_MS[3]

/** No attempt is scheduled further ahead. */
export const MAX_DELAY_MS = RETRY_DELAYS_MS[3] + JITTER_MS

export const MAX_ATTEMPTS = RETRY_DELAYS_MS.length + 1

/** Consecutive failed attempts, over all events, after which a webhook is deactivated. */
export const MAX_CONSECUTIVE_FAILURES = 10

/** `last_failure_reason` of a webhook that failures deactivated. */
export const DEACTIVATION_REASON = `deactivated after ${MAX_CONSECUTIVE_FAILURES} consecutive failures`

/** Error in the history of deliveries that were pending when failures deactivated their webhook. */
export const ENDED_BY_FAILURES = `The webhook was ${DEACTIVATION_REASON}.`

/**
 * How long a webhook backs off after consecutive failures: 1, 3, 9 … seconds up to 30 minutes. The tenth failure thus
 * comes 78 minutes after the first, so that an endpoint that is down for an hour is not deactivated.
 */
export const BACKOFF: BackoffDelays = { minMs: seconds(1), maxMs: minutes(30), factor: 3 }

/** After a failure of this service itself, which does not count. */
export const OWN_FAILURE_BACKOFF: BackoffDelays = { minMs: seconds(1), maxMs: seconds(60) }

/**
 * Delay after attempt number `attempts`; undefined when that was the last.
 * @param fraction of the jitter, 0 to 1
 */
export function computeRetryDelayMs(attempts: number, fraction: number): number | undefined {
  const delay = RETRY_DELAYS_MS[attempts - 1]
  return delay === undefined ? undefined : delay + Math.round(fraction * JITTER_MS)
}
