/**
 * @module The retry schedule of deferred mail: short delays at first, because most deferrals are greylisting, then
 * longer ones until expiry.
 */
import type { Millis } from '#platform/time/clock.ts'
import { hours, minutes, seconds } from '#platform/units.ts'

/**
 * Delay after attempt 1, 2, …; the last delay repeats. RFC 5321 §4.5.4.1 recommends at least 30 minutes in general, but
 * also variable strategies with shorter delays at first.
 */
const RETRY_DELAYS_MS = [
  minutes(1),
  minutes(5),
  minutes(15),
  minutes(30),
  hours(1),
  hours(2),
  hours(4),
  hours(8),
] as const
const LAST_RETRY_DELAY_MS = hours(8)
const JITTER_FRACTION = 0.1

/** Delay in ms after attempt number `attempt` (1 is the first), with up to 10 % jitter. */
export function computeRetryDelayMs(attempt: number, random: number): number {
  const base = RETRY_DELAYS_MS[Math.max(attempt, 1) - 1] ?? LAST_RETRY_DELAY_MS
  return Math.round(base * (1 + JITTER_FRACTION * random))
}

/**
 * Number of attempts in the schedule without jitter, including the last one at or after expiry. Emails show it as
 * `max_attempts`.
 */
export function computeMaxAttempts(expiryHours: number): number {
  let attempts = 1
  for (let at = 0; at < hours(expiryHours); at += computeRetryDelayMs(attempts++, 0));
  return attempts
}

/**
 * `max_attempts` of an email by its `expires_in` in seconds: no attempt begins at or after that deadline. Without one,
 * that of the service.
 */
export function createMaxAttempts(expiryHours: number): (expiresIn: number | undefined) => number {
  const byAge = computeMaxAttempts(expiryHours)
  return (expiresIn) => {
    if (expiresIn === undefined) return byAge
    let attempts = 0
    for (let at = 0; at < seconds(expiresIn); at += computeRetryDelayMs(attempts, 0)) attempts++
    return attempts
  }
}

/** Whether, with maximum jitter, the next scheduled attempt would come at or after expiry. */
export function isRetryScheduleExhausted(attempts: number, expiryHours: number): boolean {
  let at = 0
  for (let attempt = 1; attempt < attempts; attempt++) at += computeRetryDelayMs(attempt, 1)
  return at + computeRetryDelayMs(attempts, 1) >= hours(expiryHours)
}

/**
 * Whether a deferral at `now` is final: the email is past its expiry, and was attempted as often as the schedule allows
 * in that time. Because both are required, neither a fast clock nor a long downtime ends an email after a few attempts.
 * @param attempts number of attempts of the email, or of consecutive failures of its site if these are more
 */
export const isExpired = (firstDueAt: Millis, now: Millis, attempts: number, expiryHours: number): boolean =>
  now - firstDueAt >= hours(expiryHours) && isRetryScheduleExhausted(attempts, expiryHours)

/**
 * Whether a recipient waits longer after `attempts` attempts than the schedule and any backoff allow, because its time
 * was stored while the clock was fast.
 */
export const isBeyondRetrySchedule = (nextAt: Millis, now: Millis, attempts: number): boolean =>
  nextAt - now > Math.max(attempts > 0 ? computeRetryDelayMs(attempts, 1) : 0, MAX_SITE_BACKOFF_MS)

/** Maximum backoff of a site. */
export const MAX_SITE_BACKOFF_MS = minutes(15)
