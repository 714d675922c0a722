/**
 * @module The routes of this interface in a short form, and what their handlers read: the fields of JSON objects and the
 * parameters of the query, without regard to the case of their names, as Postmark does. Lists page by `count` and
 * `offset`.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { invalid } from '#platform/errors.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import { isJsonObject } from '#platform/json-object.ts'
import type { Millis } from '#platform/time/clock.ts'
import { isDate, parseDateTime, toInstantRange } from '#platform/time/date-time.ts'
import { isSendPath, POSTMARK_PREFIX } from './dialect.ts'

export interface Call {
  readonly app: App
  readonly actor: Actor
  readonly accountId: number
  /** What the path names: an id, an alias, a message stream; '' for nothing. */
  readonly id: string
  /** Reads a parameter of the query; an empty one counts as left out. Its name in lower case. */
  readonly query: (name: string) => string | undefined
  readonly body: unknown
  readonly request: Request
  readonly headers: Record<string, string | number>
  /** The response names what is added, which had no effect. */
  readonly ignored: Set<string>
}

interface Context extends Pick<Call, 'actor' | 'body' | 'request'> {
  readonly params?: Partial<Pick<Call, 'id'>>
  readonly query: Readonly<Record<string, string | undefined>>
  readonly set: Pick<Call, 'headers'>
}

export const on = (route: string, scope: string, answer: (call: Call) => unknown) => ({ route, scope, answer })

/** Sends are at the root as well. */
export function createRoutes(app: App, routes: readonly ReturnType<typeof on>[]) {
  const elysia = new Elysia({ name: 'postmark' }).use(authenticated)
  for (const { route, scope, answer } of routes) {
    const [method = '', path = ''] = route.split(' ')
    const handle = async ({ actor, body, params, query, request, set }: Context) => {
      const parameters = new Map(Object.entries(query).map(([name, value]) => [name.toLowerCase(), value]))
      const read = (name: string) => parameters.get(name) || undefined
      const { headers } = set
      const ignored = new Set<string>()
      const call = { app, actor, accountId: actor.accountId, id: params?.id ?? '', query: read, body, request }
      const answered = await answer({ ...call, headers, ignored })
      setIgnored(headers, ignored)
      return answered
    }
    for (const prefix of isSendPath(path) ? ['', POSTMARK_PREFIX] : [POSTMARK_PREFIX])
      elysia.route(method, `${prefix}${path}`, handle as unknown as () => unknown, { detail: requires(scope) })
  }
  return elysia
}

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

type Query = Pick<Call, 'query'>

/** @param code of the error for an invalid parameter */
export function readWindow({ query }: Query, code: string): { readonly limit: number; readonly offset: number } {
  const number = (name: string, fallback: number): number => {
    const text = query(name) ?? String(fallback)
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
export function readTimes({ query }: Query, code: string): Readonly<Record<'from' | 'to', Millis | undefined>> {
  const at = (name: string, side: 'first' | 'last'): Millis | undefined => {
    const text = query(name)
    if (text === undefined) return undefined
    const instant = isDate(text) ? toInstantRange(text)?.[side] : parseDateTime(text, 'any')
    if (instant === undefined) throw invalid(name, `${name} must be a date such as 2026-11-21.`, code)
    return instant
  }
  return { from: at('fromdate', 'first'), to: at('todate', 'last') }
}

export const isInTime = (at: Millis, { from, to }: ReturnType<typeof readTimes>): boolean =>
  at >= (from ?? at) && at <= (to ?? at)
