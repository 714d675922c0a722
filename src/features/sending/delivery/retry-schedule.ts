/**
 * @module The retry ladder of deferred mail: fast at first, because most deferrals are greylisting, then ever slower until expiry.
 */
import type { Millis } from '#platform/clock.ts'
import { hours, minutes } from '#platform/units.ts'

/** Wait after attempt 1, 2, …; the last one repeats. RFC 5321 §4.5.4.1 asks for 30 minutes in general and allows more at first. */
const RETRY_DELAYS_MS = [
  minutes(5),
  minutes(10),
  minutes(20),
  minutes(40),
  hours(1),
  hours(2),
  hours(4),
  hours(8),
] as const
const LAST_RETRY_DELAY_MS = hours(8)
const JITTER_FRACTION = 0.1

/** Wait after attempt `attempt` (1 is the first) before the next, in ms, with up to 10 % jitter. */
export function computeRetryDelayMs(attempt: number, random: number): number {
  const base = RETRY_DELAYS_MS[Math.max(attempt, 1) - 1] ?? LAST_RETRY_DELAY_MS
  return Math.round(base * (1 + JITTER_FRACTION * random))
}

/** How many attempts the ladder makes, without jitter, with the one at or after expiry that is the last: `max_attempts` of an email. */
export function computeMaxAttempts(expiryHours: number): number {
  let attempts = 1
  for (let at = 0; at < hours(expiryHours); at += computeRetryDelayMs(attempts++, 0));
  return attempts
}

/** Whether the next attempt of the ladder would come after expiry, at its slowest. */
export function isRetryScheduleExhausted(attempts: number, expiryHours: number): boolean {
  let at = 0
  for (let attempt = 1; attempt < attempts; attempt++) at += computeRetryDelayMs(attempt, 1)
  return at + computeRetryDelayMs(attempts, 1) >= hours(expiryHours)
}

/**
 * Whether a deferral at `now` was the last: the email is older than it may become, and was attempted as often as the ladder does in that time. So neither a
 * clock that was ahead nor a long time off ends it after a few attempts.
 * @param attempts of the email, or of its site by whoever came before it
 */
export const isExpired = (firstDueAt: Millis, now: Millis, attempts: number, expiryHours: number): boolean =>
  now - firstDueAt >= hours(expiryHours) && isRetryScheduleExhausted(attempts, expiryHours)

/** Longer than the ladder and any rest let a recipient wait after `attempts` attempts: the time was stored under a clock that was ahead. */
export const isBeyondRetrySchedule = (nextAt: Millis, now: Millis, attempts: number): boolean =>
  nextAt - now > Math.max(attempts > 0 ? computeRetryDelayMs(attempts, 1) : 0, MAX_SITE_BACKOFF_MS)

/** The longest that a site is left alone. */
export const MAX_SITE_BACKOFF_MS = minutes(15)
