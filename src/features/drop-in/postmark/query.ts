/**
 * @module Reads the query parameters of lists: Postmark ignores the case of their names, and pages by `count` and
 * `offset`.
 */

import { invalid } from '#platform/errors.ts'
import type { Millis } from '#platform/time/clock.ts'
import { isDate, parseDateTime, toInstantRange } from '#platform/time/date-time.ts'

const DEFAULT_COUNT = 100
const MAX_COUNT = 500
/** As in Postmark: deeper pages do not exist. */
const MAX_ROW = 10_000

export type Query = Readonly<Record<string, string | undefined>>

/** Creates a reader of a parameter; an empty one counts as left out. */
export function createQueryReader(query: Query): (name: string) => string | undefined {
  const values = new Map(Object.entries(query).map(([name, value]) => [name.toLowerCase(), value]))
  return (name) => values.get(name) || undefined
}

type ReadParameter = ReturnType<typeof createQueryReader>

/** @param code of the error for an invalid parameter */
export function readWindow(read: ReadParameter, code: string): { readonly limit: number; readonly offset: number } {
  const number = (name: string, fallback: number): number => {
    const text = read(name)
    if (text === undefined) return fallback
    if (!/^\d{1,9}$/.test(text)) throw invalid(name, `${name} must be a whole number.`, code)
    return Number(text)
  }
  const limit = number('count', DEFAULT_COUNT)
  const offset = number('offset', 0)
  if (limit > MAX_COUNT) throw invalid('count', `count must be at most ${MAX_COUNT}.`, code)
  if (offset + limit > MAX_ROW)
    throw invalid('offset', `offset and count together must be at most ${MAX_ROW}; narrow the dates instead.`, code)
  return { limit, offset }
}

/** Inclusive limits. */
type TimeFilter = Readonly<Record<'from' | 'to', Millis | undefined>>

/** `fromdate` and `todate`: dates, or times without a zone, both in UTC. */
export function readTimes(read: ReadParameter, code: string): TimeFilter {
  const at = (name: string, side: 'first' | 'last'): Millis | undefined => {
    const text = read(name)
    if (text === undefined) return undefined
    const instant = isDate(text) ? toInstantRange(text)?.[side] : parseDateTime(text, 'any')
    if (instant === undefined) throw invalid(name, `${name} must be a date such as 2026-11-21.`, code)
    return instant
  }
  return { from: at('fromdate', 'first'), to: at('todate', 'last') }
}

export const isInTime = (at: Millis, { from, to }: TimeFilter): boolean =>
  (from === undefined || at >= from) && (to === undefined || at <= to)
