/** @module The filters `from_date` and `to_date` of lists. */
import { Type } from '@sinclair/typebox'
import { toInstantRange } from '#platform/time/date-time.ts'
import type { Millis } from '#platform/units.ts'
import { invalid } from '../errors.ts'

/** Fields to spread into a query schema. `what` names the rows and their time: `emails accepted`. */
export const dateFields = (what: string) => ({
  from_date: Type.Optional(
    Type.String({ description: `Only ${what} at or after this date or date-time (ISO 8601, UTC).` }),
  ),
  to_date: Type.Optional(
    Type.String({ description: `Only ${what} at or before this date or date-time; a date means the end of that day.` }),
  ),
})

interface DateQuery {
  readonly from_date?: string
  readonly to_date?: string
}

/**
 * Parses both ends, which are inclusive; an end that is not provided is undefined. Throws a 422 for an invalid date.
 */
export function parseDateRange({ from_date, to_date }: DateQuery): {
  readonly from: Millis | undefined
  readonly to: Millis | undefined
} {
  return {
    from: from_date === undefined ? undefined : parseDateFilter('from_date', from_date).first,
    to: to_date === undefined ? undefined : parseDateFilter('to_date', to_date).last,
  }
}

function parseDateFilter(field: string, text: string): { first: Millis; last: Millis } {
  const instants = toInstantRange(text)
  if (!instants)
    throw invalid(field, `${field} must be a date such as 2026-11-21 or a date-time such as 2026-11-21T09:30:00Z.`)
  return instants
}
