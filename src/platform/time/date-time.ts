/**
 * @module Parses dates and times as clients write them (ISO 8601, RFC 3339). Pure; never rolls 30 February over to
 * March.
 */

import { days, type Millis, minutes } from '#platform/units.ts'

const DATE_TIME = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?)?$/i

/**
 * The instant in `text`, to the millisecond; undefined when it is not a date or date-time.
 * @param form `zoned`: a date-time with a zone. `any`: also a date-time without a zone, taken as UTC, and a date, taken
 * as its first instant
 */
export function parseDateTime(text: string, form: 'zoned' | 'any'): Millis | undefined {
  const match = DATE_TIME.exec(text)
  if (!match || (form === 'zoned' && match[8] === undefined)) return undefined
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0))
  const date = new Date(0)
  // Date.UTC is not used, because it maps the years 0 to 99 to 1900 to 1999.
  date.setUTCFullYear(year, month - 1, day)
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined
  // RFC 3339 §5.7: a leap second is the last second of its minute; here it becomes the first second of the next minute.
  if (hour > 23 || minute > 59 || second > 60) return undefined
  const offset = parseOffsetMs(match[8] ?? 'Z')
  if (offset === undefined) return undefined
  date.setUTCHours(hour, minute, second, Number((match[7] ?? '').padEnd(3, '0').slice(0, 3)))
  return date.getTime() - offset
}

/** Whether the text has the form of a date without a time. */
export const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(text)

/**
 * The range of a time filter: the first and last instant of a date (UTC); for a date-time, that instant twice.
 * Undefined for any other text.
 */
export function toInstantRange(text: string): { readonly first: Millis; readonly last: Millis } | undefined {
  const at = parseDateTime(text, 'any')
  return at === undefined ? undefined : { first: at, last: isDate(text) ? at + days(1) - 1 : at }
}

function parseOffsetMs(zone: string): number | undefined {
  if (/^z$/i.test(zone)) return 0
  const hour = Number(zone.slice(1, 3))
  const minute = Number(zone.slice(-2))
  if (hour > 23 || minute > 59) return undefined
  return (zone.startsWith('-') ? -1 : 1) * minutes(hour * 60 + minute)
}
