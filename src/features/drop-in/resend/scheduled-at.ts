/** @module Reads `scheduled_at`: a date and time, or English words such as "in 1 min" or "tomorrow at 9am" (UTC). */
import { parseDate } from 'chrono-node/en'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/time/clock.ts'
import { parseDateTime } from '#platform/time/date-time.ts'

/** Longer than any phrase that a person writes; limits what the patterns of the parser may cost. */
const MAX_WORDS_LENGTH = 80

/** The time in the form of our own interface; undefined for none. Throws a 422 for words that name no time. */
export function toSendAt(value: unknown, now: Millis): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value !== 'string') throw createError()
  const text = value.trim()
  const at = parseDateTime(text, 'any')
  if (at !== undefined) return isoTime(at)
  const date =
    text.length <= MAX_WORDS_LENGTH
      ? parseDate(text, { instant: new Date(now), timezone: 'UTC' }, { forwardDate: true })
      : null
  if (!date) throw createError()
  return isoTime(date.getTime())
}

const createError = () =>
  invalid(
    'scheduled_at',
    'scheduled_at must be a date and time with a zone, such as 2026-11-21T09:30:00Z, or words such as "in 1 min" or "tomorrow at 9am", which are read as UTC.',
  )
