/**
 * @module The routes of other providers' interfaces as rows of a table: method and path, scopes, what answers a call,
 * and the fields of its JSON body. These are checked like those of `/v1`, but what is not among them is ignored, and the
 * response names it.
 */
import type { Database } from 'bun:sqlite'
import { type Static, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import { isJsonObject } from '#platform/json-object.ts'

export type Query = Readonly<Record<string, string | undefined>>

export interface Call<Body = unknown> {
  readonly app: App
  readonly db: Database
  readonly actor: Actor
  readonly accountId: number
  readonly params: Readonly<Record<string, string>>
  /** The parameters of these names, '' for an absent one. */
  readonly id: string
  readonly part: string
  readonly query: Query
  readonly body: Body
  readonly request: Request
  /** Of the response. */
  readonly set: { readonly headers: Record<string, string | number>; status?: number }
  /** Names without effect, which the response lists. */
  readonly ignored: Set<string>
}

interface Context extends Pick<Call, 'actor' | 'query' | 'body' | 'request' | 'set'> {
  readonly params?: Call['params']
}

export interface Route {
  readonly route: string
  readonly answer: (call: never) => unknown
  readonly detail: object
  readonly body?: TSchema
}

/** @param scopes with blanks in between */
export const on = <Complete extends Call = Call>(
  route: string,
  scopes: string,
  answer: (call: Complete) => unknown,
): Route => ({ route, answer, detail: requires(scopes) })

/** A route with a JSON body. */
export const takes = <Body extends TSchema>(
  route: string,
  scopes: string,
  body: Body,
  answer: (call: Call<Static<Body>>) => unknown,
): Route => ({ route, answer, detail: requires(scopes), body })

/** Fields of a body, beside which it may have others. Says so, because Elysia would set what is unset to false. */
export const Fields = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: true })

/** @param complete what the interface adds to a call; `path` has the prefix and the names of parameters */
export function createRoutes<Complete extends Call>(
  app: App,
  prefixes: readonly string[],
  routes: readonly Route[],
  complete: (call: Call, method: string, path: string) => Complete,
) {
  const elysia = new Elysia().use(authenticated)
  const add = (prefix: string, { route, answer, ...hooks }: Route): void => {
    const [method = '', end = ''] = route.split(' ')
    const path = prefix + end
    const handle = async ({ actor, params = {}, query, body, request, set }: Context) => {
      const { accountId } = actor
      const { id = '', part = '' } = params
      const ignored = new Set<string>()
      const call = { app, db: app.db, actor, accountId, params, id, part, query, body, request, set, ignored }
      const known: object | undefined = hooks.body?.['properties']
      if (known && isJsonObject(body)) ignoreUnknown(call, body, Object.keys(known))
      const response = await answer(complete(call, method, path) as never)
      setIgnored(set.headers, ignored)
      return response
    }
    elysia.route(method, path, handle as unknown as () => unknown, hooks)
  }
  for (const prefix of prefixes) for (const route of routes) add(prefix, route)
  return elysia
}

/**
 * Names in the response the fields that are not among those that are known.
 * @param parent put before each name, such as `template.`
 */
export function ignoreUnknown({ ignored }: Call, body: object, known: readonly string[], parent = ''): void {
  for (const [name, value] of Object.entries(body))
    if (!known.includes(name) && value !== undefined && value !== null) ignored.add(parent + name)
}
