/**
 * @module The routes of this interface in a short form: method and path, scopes, and what answers a call; and the fields
 * of JSON bodies, which have no schema: unknown fields are ignored, wrong types are a 422.
 */
import type { Database } from 'bun:sqlite'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
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
  /** The body, of which only these fields have an effect; the response names the others. */
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
      const read = (fields: readonly string[]) => {
        const wanted = requireJsonObject(body)
        setIgnored(headers, listUnknown(wanted, fields))
        return wanted
      }
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

/** The body as an object. An absent body counts as an empty one. */
export function requireJsonObject(body: unknown): JsonObject {
  if (body === undefined || body === null) return {}
  if (!isJsonObject(body)) throw invalid('body', 'The body must be a JSON object.')
  return body
}

export function missingField(field: string, hint = ''): AppError {
  const message = `Missing \`${field}\` field. ${hint}`.trim()
  return new AppError(422, 'missing_required_field', message, { details: [{ field, message }] })
}

/** Undefined for an absent field or null. */
export function readText(body: JsonObject, field: string): string | undefined {
  const value = body[field]
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string') throw invalid(field, `${field} must be a string.`)
  return value
}

export function requireText(body: JsonObject, field: string): string {
  const text = readText(body, field)
  if (text === undefined || text === '') throw missingField(field)
  return text
}

/** Undefined for an absent field or null. */
export function readFlag(body: JsonObject, field: string): boolean | undefined {
  const value = body[field] ?? undefined
  if (value !== undefined && typeof value !== 'boolean') throw invalid(field, `${field} must be true or false.`)
  return value
}

/** Undefined for an absent field or null. */
export function readTexts(body: JsonObject, field: string, maxItems: number): readonly string[] | undefined {
  const value = body[field]
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value) || value.length > maxItems || !value.every((item) => typeof item === 'string'))
    throw invalid(field, `${field} must be an array of at most ${maxItems} strings.`)
  return value as string[]
}

/**
 * Names of the fields that are not among those that are known.
 * @param parent put before each name, such as `template.`
 */
export const listUnknown = (body: JsonObject, known: readonly string[], parent = ''): string[] =>
  Object.keys(body)
    .filter((name) => !known.includes(name) && body[name] !== undefined && body[name] !== null)
    .map((name) => parent + name)

/** A slug or alias of the letters and digits of a name; one that is taken ends in part of an id. */
export function createSlug(name: string, fallback: string, maxLength: number, isTaken: (slug: string) => boolean) {
  const slug = (name.toLowerCase().match(/[a-z0-9]+/g) ?? [fallback]).join('-').slice(0, maxLength - 9)
  return isTaken(slug) ? `${slug}-${formatUuid(newUuid()).slice(-8)}` : slug
}
