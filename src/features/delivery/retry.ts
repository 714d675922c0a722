/**
 * @module The retry ladder of deferred mail: fast at first, because most deferrals are greylisting, then ever slower until expiry.
 */
import type { Millis } from '#platform/clock.ts'
import { hours, minutes } from '#platform/units.ts'

/** Wait after attempt 1, 2, …; the last one repeats. RFC 5321 §4.5.4.1 asks for 30 minutes in general and allows more at first. */
const LADDER_MS = [minutes(5), minutes(10), minutes(20), minutes(40), hours(1), hours(2), hours(4), hours(8)] as const
const LAST_STEP_MS = hours(8)
const JITTER = 0.1

/** Wait after attempt `attempt` (1 is the first) before the next, in ms, with up to 10 % jitter. */
export function retryDelayMs(attempt: number, random: number): number {
  const base = LADDER_MS[Math.max(attempt, 1) - 1] ?? LAST_STEP_MS
  return Math.round(base * (1 + JITTER * random))
}

/** How many attempts the ladder makes, without jitter, with the one at or after expiry that is the last: `max_attempts` of an email. */
export function maxAttempts(expiryHours: number): number {
  let attempts = 1
  for (let at = 0; at < hours(expiryHours); at += retryDelayMs(attempts++, 0));
  return attempts
}

/** Whether a deferral at `now` was the last: the email is older than it may become. */
export const isExpired = (firstDueAt: Millis, now: Millis, expiryHours: number): boolean =>
  now - firstDueAt >= hours(expiryHours)
