/**
 * @module The routes of this interface in a short form, and what their handlers read: the fields of JSON objects and the
 * parameters of the query, without regard to the case of their names, as Postmark does. Lists page by `count` and
 * `offset`.
 */
import type { App } from '#features/core/app/app.ts'
import { invalid } from '#platform/errors.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { isDate, parseDateTime, toInstantRange } from '#platform/time/date-time.ts'
import type { Millis } from '#platform/units.ts'
import * as dialects from '../dialects/routes.ts'

/** `id` is what the path names: an id, an alias, a message stream. */
export interface Call extends dialects.Call {
  /** Reads a parameter of the query; an empty one counts as left out. Its name in lower case. */
  readonly read: (name: string) => string | undefined
}

export const on = (route: string, scope: string, answer: (call: Call) => unknown): dialects.Route =>
  dialects.on(route, scope, answer as never)

export const createRoutes = (app: App, prefixes: readonly string[], routes: readonly dialects.Route[]) =>
  dialects.createRoutes(app, prefixes, routes, (call): Call => {
    const parameters = new Map(Object.entries(call.query).map(([name, value]) => [name.toLowerCase(), value]))
    return { ...call, read: (name) => parameters.get(name) || undefined }
  })

/**
 * Creates a reader of objects with these fields, which adds the names of others to `ignored`. Null counts as left out.
 * @param form of a valid object, for the error of any other value
 */
export function createFieldReader(names: readonly string[], form: string) {
  const byLowerCase = new Map(names.map((name) => [name.toLowerCase(), name]))
  /** @param parent put before each ignored name, such as `Attachments.` */
  return (value: unknown, ignored: Set<string>, parent = ''): Record<string, unknown> => {
    if (!isJsonObject(value)) throw invalid('body', form, 'incompatible_json')
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

type Query = Pick<Call, 'read'>

/** @param code of the error for an invalid parameter */
export function readWindow({ read }: Query, code: string): { readonly limit: number; readonly offset: number } {
  const number = (name: string, fallback: number): number => {
    const text = read(name) ?? String(fallback)
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

/** `fromdate` and `todate`, both included: dates, or times without a zone, both in UTC. */
export function readTimes({ read }: Query, code: string): Readonly<Record<'from' | 'to', Millis | undefined>> {
  const at = (name: string, side: 'first' | 'last'): Millis | undefined => {
    const text = read(name)
    if (text === undefined) return undefined
    const instant = isDate(text) ? toInstantRange(text)?.[side] : parseDateTime(text, 'any')
    if (instant === undefined) throw invalid(name, `${name} must be a date such as 2026-11-21.`, code)
    return instant
  }
  return { from: at('fromdate', 'first'), to: at('todate', 'last') }
}

export const isInTime = (at: Millis, { from, to }: ReturnType<typeof readTimes>): boolean =>
  at >= (from ?? at) && at <= (to ?? at)
