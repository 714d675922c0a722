/**
 * @module Gives a name to what requests and responses hold, and to the objects that several of them share: client
 * generators then create one type for them. The names come from the paths (`/v1/domains/{id}` has a `Domain`) and from
 * the fields that hold them, or are the titles of the schemas.
 */

import { isObject, type Json, type JsonObject } from './openapi-examples.ts'
import { nameOfPath, toPascalCase, toSingular } from './openapi-names.ts'
import { EXTRA } from './response-shape.ts'

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
export function shareSchemas(operations: readonly NamedOperation[], components: JsonObject): void {
  const counts = new Map<string, number>()
  for (const { operation } of operations) countObjects(operation, counts)
  const names = new Map<string, string>()
  const schemas = components['schemas'] as JsonObject
  const taken = new Set(Object.keys(schemas))
  const share = (value: Json, name: string, isNamed = false): Json => {
    if (Array.isArray(value)) return value.map((each) => share(each, name, isNamed))
    if (!isObject(value)) return value
    const shape = shapeOf(value)
    if (shape === undefined || !(isNamed || toTitle(value) || (counts.get(shape) ?? 0) > 1))
      return shareWithin(value, toTitle(value) ?? name, isNamed && shape === undefined, share)
    const { description, [EXTRA]: extra, ...schema } = value
    let own = names.get(shape)
    if (own === undefined) {
      own = findFreeName(toTitle(value) ?? name, taken)
      names.set(shape, own)
      schemas[own] = shareWithin(schema, own, false, share)
    }
    return {
      ...(description !== undefined && { description }),
      ...(extra !== undefined && { [EXTRA]: extra }),
      $ref: `#/components/schemas/${own}`,
    }
  }
  /** The envelope of a response has no name, but what it holds. */
  const shareResponse = (schema: Json, name: string): Json => {
    if (!isObject(schema) || !isObject(schema['properties']) || schema['properties']['data'] === undefined)
      return share(schema, name, true)
    // The rows of a list are often shorter than the resource.
    const isShort = isObject(schema['properties']['data']) && schema['properties']['data']['type'] === 'array'
    const rowName = isShort && taken.has(name) ? `${name}Summary` : name
    const properties = Object.entries(schema['properties']).map(([field, each]) => [
      field,
      share(
        each,
        field === 'data' ? rowName : COMMON_FIELDS.includes(field) ? toPascalCase(field) : name + toPascalCase(field),
        true,
      ),
    ])
    return { ...schema, properties: Object.fromEntries(properties) }
  }
  // The responses to reading one resource come first, so that its name is that of the resource itself.
  for (const { method, path, operation } of [...operations].sort(byPlainness)) {
    const name = nameOfPath(path)
    const action = toPascalCase(String(operation['operationId']))
    const requestName = method === 'webhook' ? `${name}Payload` : `${action}Request`
    const responseName = method === 'get' ? name : `${action}Result`
    const { requestBody, responses } = operation
    if (requestBody !== undefined)
      operation['requestBody'] = shareContents(requestBody, (schema) => share(schema, requestName, true))
    if (responses !== undefined)
      operation['responses'] = shareContents(responses, (schema) => shareResponse(schema, responseName))
  }
}

/** Parts of envelopes that are the same everywhere. */
const COMMON_FIELDS = ['pagination', 'period']

/**
 * What schemas under one name have in common: all but the description and the mark of an extra field, which are those
 * of the place. Undefined for anything but an object.
 */
function shapeOf(schema: JsonObject): string | undefined {
  const { description: _, [EXTRA]: __, ...shape } = schema
  return schema['type'] === 'object' && isObject(schema['properties']) ? JSON.stringify(shape, sortFields) : undefined
}

/** The collector writes the keywords of the same schema in one order or another. */
const sortFields = (_: string, value: Json): Json =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value

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

/**
 * The parts of a schema are named after their field, unless they have a title.
 * @param isNamed whether the parts of a list or of a choice get a name in any case
 */
function shareWithin(
  schema: JsonObject,
  name: string,
  isNamed: boolean,
  share: (value: Json, name: string, isNamed?: boolean) => Json,
): JsonObject {
  const { properties, items, anyOf, additionalProperties, ...rest } = schema
  return {
    ...rest,
    ...(anyOf !== undefined && { anyOf: share(anyOf, name, isNamed) }),
    ...(items !== undefined && { items: share(items, toSingular(name), isNamed) }),
    ...(additionalProperties !== undefined && { additionalProperties: share(additionalProperties, name) }),
    ...(isObject(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([field, each]) => [field, share(each, name + toPascalCase(field))]),
      ),
    }),
  }
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
