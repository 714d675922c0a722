/**
 * @module The routes of this interface in a short form: method and path, scopes, and what answers a call; and the fields
 * of JSON bodies, which have no schema: unknown fields are ignored, wrong types are a 422.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import * as dialects from '../dialects/routes.ts'

export interface Call extends dialects.Call {
  readonly headers: dialects.Call['set']['headers']
  /** The body, of which only these fields have an effect; the response names the others. */
  readonly read: (fields: readonly string[]) => JsonObject
}

/** @param scopes with blanks in between */
export const on = (route: string, scopes: string, answer: (call: Call) => unknown) =>
  dialects.on(route, scopes, (call) => {
    const read = (fields: readonly string[]) => {
      const wanted = requireJsonObject(call.body)
      for (const name of dialects.listUnknown(wanted, fields)) call.ignored.add(name)
      return wanted
    }
    return answer({ ...call, headers: call.set.headers, read })
  })

/** A POST that creates something responds with 201, but for one to the list of suppressions. */
const CREATES = /^(?!.*suppressions$).*s$/

export const createRoutes = (app: App, prefixes: readonly string[], routes: readonly dialects.Route[]) =>
  dialects.createRoutes(app, prefixes, routes, (call, method, path) => {
    if (method === 'POST' && CREATES.test(path)) call.set.status = 201
    return call
  })

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

/** A slug or alias of the letters and digits of a name; one that is taken ends in part of an id. */
export function createSlug(name: string, fallback: string, maxLength: number, isTaken: (slug: string) => boolean) {
  const slug = (name.toLowerCase().match(/[a-z0-9]+/g) ?? [fallback]).join('-').slice(0, maxLength - 9)
  return isTaken(slug) ? `${slug}-${formatUuid(newUuid()).slice(-8)}` : slug
}
