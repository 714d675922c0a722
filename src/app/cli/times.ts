/** @module Parses the times of options, as an operator writes them. Pure. */

import { isoTime } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/time/clock.ts'
import { toInstantRange } from '#platform/time/date-time.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { UsageError } from './errors.ts'

/** Follows what an option means in its help. */
export const TIME_FORMS = '2h, yesterday, 14:30, 2026-11-21 or 2026-11-21T14:30Z; UTC'

const AGO = /^(\d{1,6}) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)( ago)?$/
const UNITS: Readonly<Record<string, (count: number) => Millis>> = {
  s: seconds,
  m: minutes,
  h: hours,
  d: days,
  w: (count) => days(7 * count),
}
const TIME_OF_DAY = /^([01]?\d|2[0-3]):([0-5]\d)$/

/**
 * Returns a date or a time (ISO 8601, UTC). Also understands `2h`, `3 days ago`, `today`, `yesterday`, and a time of day,
 * which is the last one before now. Throws UsageError for any other text.
 */
export function parseTimeOption(option: string, text: string, now: Millis): string {
  const words = text.trim().toLowerCase()
  if (words === 'now') return isoTime(now)
  if (words === 'today') return isoTime(now).slice(0, 10)
  if (words === 'yesterday') return isoTime(now - days(1)).slice(0, 10)
  const [, count, unit = ''] = AGO.exec(words) ?? []
  const toMillis = UNITS[unit.charAt(0)]
  if (toMillis) return isoTime(now - toMillis(Number(count)))
  const [, hour, minute] = TIME_OF_DAY.exec(words) ?? []
  if (hour !== undefined) {
    const at = now - (now % days(1)) + hours(Number(hour)) + minutes(Number(minute))
    return isoTime(at > now ? at - days(1) : at)
  }
  if (toInstantRange(text.trim())) return text.trim()
  throw new UsageError(`${option} must be a time such as ${TIME_FORMS}, not "${text}".`, 'invalid_time')
}

/** The same as an instant: of a date its first. Undefined without a text. */
export function parseInstantOption(option: string, text: string | undefined, now: Millis): Millis | undefined {
  return text === undefined ? undefined : toInstantRange(parseTimeOption(option, text, now))?.first
}
