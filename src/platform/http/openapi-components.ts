/**
 * @module Gives the schemas that several operations share a name: client generators then create one type for them. The
 * names come from the paths (`/v1/domains/{id}` has a `Domain`) and from the fields that hold them, or are the titles
 * of the schemas.
 */
import { yieldToEventLoop } from '../clock.ts'
import type { Json, JsonObject } from './openapi-schemas.ts'

/** An operation with the path and method under which it is; for a webhook, its name. */
export interface NamedOperation {
  /** `webhook`: the schema of its body always gets a name. */
  readonly method: string
  readonly path: string
  readonly operation: JsonObject
}

/**
 * Replaces repeated object schemas in the operations by references, in place.
 * @param components of the description, to which the schemas are added
 */
export async function shareSchemas(operations: readonly NamedOperation[], components: JsonObject): Promise<void> {
  const counts = new Map<string, number>()
  for (const { operation } of operations) {
    await yieldToEventLoop()
    countObjects(operation, counts)
  }
  const names = new Map<string, string>()
  const schemas = components['schemas'] as JsonObject
  const taken = new Set(Object.keys(schemas))
  const share = (value: Json, name: string, isNamed = false): Json => {
    if (Array.isArray(value)) return value.map((each) => share(each, name))
    if (!isObject(value)) return value
    const shape = shapeOf(value)
    if (shape === undefined || !(isNamed || (counts.get(shape) ?? 0) > 1))
      return shareWithin(value, toTitle(value) ?? name, share)
    const { description, ...schema } = value
    let own = names.get(shape)
    if (own === undefined) {
      own = findFreeName(toTitle(value) ?? name, taken)
      names.set(shape, own)
      schemas[own] = shareWithin(schema, own, share)
    }
    return { ...(description !== undefined && { description }), $ref: `#/components/schemas/${own}` }
  }
  // The responses to reading one resource come first, so that its name is that of the resource itself.
  for (const { method, path, operation } of [...operations].sort(byPlainness)) {
    await yieldToEventLoop()
    const name = nameOfPath(path)
    const shareIn = (part: string, schemaName: string, isNamed = false): void => {
      const contents = operation[part]
      if (contents !== undefined)
        operation[part] = shareContents(contents, (schema) => share(schema, schemaName, isNamed))
    }
    if (method === 'webhook') shareIn('requestBody', `${name}Payload`, true)
    else shareIn('requestBody', `${name}Request`)
    shareIn('responses', method === 'get' ? name : `${name}Result`)
  }
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * What schemas under one name have in common: all but the description, which is that of the place. Undefined for a
 * schema that gets no name: anything but an object, and the envelopes `{data}`, `{data, pagination}`, `{data, period}`.
 */
function shapeOf(schema: JsonObject): string | undefined {
  const { description: _, ...shape } = schema
  if (schema['type'] !== 'object' || !isObject(schema['properties'])) return undefined
  return Object.keys(schema['properties']).every((field) => ENVELOPE_FIELDS.includes(field))
    ? undefined
    : JSON.stringify(shape, sortFields)
}

/** The collector writes the keywords of the same schema in one order or another. */
const sortFields = (_: string, value: Json): Json =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value

const ENVELOPE_FIELDS = ['data', 'pagination', 'period']

const toTitle = ({ title }: JsonObject): string | undefined => (typeof title === 'string' ? title : undefined)

function countObjects(value: Json, counts: Map<string, number>): void {
  if (Array.isArray(value)) for (const each of value) countObjects(each, counts)
  if (!isObject(value)) return
  const shape = shapeOf(value)
  if (shape !== undefined) counts.set(shape, (counts.get(shape) ?? 0) + 1)
  for (const each of Object.values(value)) countObjects(each, counts)
}

/** Applies a function to the schemas of a request or of responses, not to their examples. */
function shareContents(value: Json, share: (schema: Json) => Json): Json {
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      name,
      name === 'schema' ? share(each) : name === 'example' ? each : shareContents(each, share),
    ]),
  )
}

/** The parts of a schema are named after their field, unless they have a title. */
function shareWithin(schema: JsonObject, name: string, share: (value: Json, name: string) => Json): JsonObject {
  const { properties, items, anyOf, additionalProperties, ...rest } = schema
  return {
    ...rest,
    ...(anyOf !== undefined && { anyOf: share(anyOf, name) }),
    ...(items !== undefined && { items: share(items, toSingular(name)) }),
    ...(additionalProperties !== undefined && { additionalProperties: share(additionalProperties, name) }),
    ...(isObject(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([field, each]) => [field, share(each, nameOfField(schema, name, field))]),
      ),
    }),
  }
}

/** The parts of envelopes are named as they are. */
function nameOfField(schema: JsonObject, name: string, field: string): string {
  if (shapeOf(schema) !== undefined) return name + toPascalCase(field)
  return field === 'data' ? name : toPascalCase(field)
}

function findFreeName(name: string, taken: Set<string>): string {
  let free = name
  for (let number = 2; taken.has(free); number++) free = `${name}${number}`
  taken.add(free)
  return free
}

const byPlainness = (a: NamedOperation, b: NamedOperation): number => rankOf(a) - rankOf(b)

const rankOf = ({ method, path }: NamedOperation): number =>
  method === 'get' && /\/\{\w+\}$/.test(path) ? 0 : method === 'get' ? 1 : method === 'webhook' ? 3 : 2

/** `/v1/contact-lists/{id}/contacts` is a `ContactListContact`. */
const nameOfPath = (path: string): string =>
  path
    .split('/')
    .filter((segment) => segment !== '' && segment !== 'v1' && !segment.startsWith('{'))
    .map((segment) => toSingular(toPascalCase(segment)))
    .join('')

const toPascalCase = (text: string): string =>
  text.replace(/(?:^|[-_.])(\w)/g, (_, letter: string) => letter.toUpperCase()).replace(/\W/g, '')

const toSingular = (name: string): string =>
  name
    .replace(/ies$/, 'y')
    .replace(/(?<=x|ch|ss)es$/, '')
    .replace(/(?<!s|u|ic|dn)s$/, '')
