/** @module Reads fields of JSON bodies that have no schema: unknown fields are ignored, wrong types are a 422. */
import { AppError, invalid } from '#platform/errors.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'

/** The body as an object. An absent body counts as an empty one. */
export function requireJsonObject(body: unknown): JsonObject {
  if (body === undefined || body === null) return {}
  if (!isJsonObject(body)) throw invalid('body', 'The body must be a JSON object.')
  return body
}

/** The body of a route that has these fields. The response names the others, which are ignored. */
export function readBody(
  { body, set }: { readonly body: unknown; readonly set: { headers: Record<string, string | number> } },
  fields: readonly string[],
): JsonObject {
  const wanted = requireJsonObject(body)
  setIgnored(set.headers, listUnknown(wanted, fields))
  return wanted
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
