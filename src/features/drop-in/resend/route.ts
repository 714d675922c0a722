/** @module The routes of this interface in a short form: method and path, scopes, and what answers a call. */
import type { Database } from 'bun:sqlite'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { JsonObject } from '#platform/json-object.ts'
import { readBody } from './body.ts'
import { RESEND_PREFIX } from './dialect.ts'

export type Query = Readonly<Record<string, string | undefined>>

export interface Call {
  readonly app: App
  readonly db: Database
  readonly actor: Actor
  readonly accountId: number
  /** The parameters of the path, '' for an absent one. */
  readonly id: string
  readonly part: string
  readonly query: Query
  readonly body: unknown
  readonly request: Request
  readonly headers: Record<string, string | number>
  /** The body, of which only these fields have an effect. */
  readonly read: (fields: readonly string[]) => JsonObject
}

interface Context extends Pick<Call, 'actor' | 'body' | 'query' | 'request'> {
  readonly params?: Partial<Pick<Call, 'id' | 'part'>>
  readonly set: { readonly headers: Call['headers']; status?: number }
}

type Answer = (call: Call) => unknown

/** @param scopes with blanks in between */
export const on = (route: string, scopes: string, answer: Answer) => ({ route, scopes, answer })

/** The status of a POST to a list is 201. */
export function createRoutes(app: App, routes: readonly ReturnType<typeof on>[]) {
  const elysia = new Elysia({ prefix: RESEND_PREFIX }).use(authenticated)
  for (const { route, scopes, answer } of routes) {
    const [method = '', path = ''] = route.split(' ')
    const handle = ({ actor, body, params, query, request, set }: Context) => {
      const { id = '', part = '' } = params ?? {}
      const { headers } = set
      if (method === 'POST' && path.endsWith('s') && path !== '/suppressions') set.status = 201
      const read = (fields: readonly string[]) => readBody({ body, set }, fields)
      const call = { app, db: app.db, actor, accountId: actor.accountId, id, part, query }
      return answer({ ...call, body, request, headers, read })
    }
    elysia.route(method, path, handle as unknown as () => unknown, { detail: requires(scopes) })
  }
  return elysia
}

export const toReference = <Name extends string>(object: Name, { uuid }: { readonly uuid: UuidBytes }) => ({
  object,
  id: formatUuid(uuid),
})

export const toDeleted = <Name extends string>(object: Name, id: string) => ({
  object,
  id: id.toLowerCase(),
  deleted: true,
})

/** Answers a DELETE. @param remove throws when there is no such object */
export const deletes =
  (object: string, remove: (app: App, actor: Actor, id: string) => Promise<unknown>) =>
  async ({ app, actor, id }: Call) => {
    await remove(app, actor, id)
    return toDeleted(object, id)
  }
