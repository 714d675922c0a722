/**
 * @module Reads the fields of a JSON object, and the query parameters of lists, as Postmark does: without regard to the
 * case of their names. Unknown fields are ignored, and the response names them in `Tassis-Ignored`. Lists page by `count`
 * and `offset`.
 */
import { Elysia } from 'elysia'
import { invalid } from '#platform/errors.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import type { JsonObject } from '#platform/json-object.ts'
import type { Millis } from '#platform/time/clock.ts'
import { isDate, parseDateTime, toInstantRange } from '#platform/time/date-time.ts'

/** Gives handlers the set `ignored`; the response names what they add to it. */
export const namesIgnored = new Elysia({ name: 'postmark-ignored' })
  .derive({ as: 'scoped' }, () => ({ ignored: new Set<string>() }))
  .onAfterHandle({ as: 'scoped' }, ({ ignored, set }) => setIgnored(set.headers as Record<string, string>, ignored))

/**
 * Reads known fields of an object, and adds the names of the others to `ignored`.
 * @param parent put before each name, such as `Attachments.`
 */
export type ReadFields = (value: JsonObject, ignored: Set<string>, parent?: string) => Record<string, unknown>

/** Creates a reader of objects with these fields. Null counts as left out. */
export function createFieldReader(names: readonly string[]): ReadFields {
  const byLowerCase = new Map(names.map((name) => [name.toLowerCase(), name]))
  return (value, ignored, parent = '') => {
    const fields: Record<string, unknown> = {}
    for (const [given, content] of Object.entries(value)) {
      const name = byLowerCase.get(given.toLowerCase())
      if (name === undefined) ignored.add(parent + given)
      else if (content !== null) fields[name] = content
    }
    return fields
  }
}

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
