/** @module Checks values against the part of JSON Schema that the API description uses; throws for any other keyword. */

export interface JsonSchema {
  readonly [keyword: string]: unknown
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value

const FORMATS: Readonly<Record<string, RegExp>> = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  binary: /^/,
}

type Rule = (wanted: never, value: never, schema: JsonSchema, path: string) => boolean | Generator<string>

/** Each returns whether the value is valid, or yields the problems of its parts. */
const RULES: Readonly<Record<string, Rule>> = {
  type: (wanted: string | string[], value: unknown) =>
    [wanted].flat().some((type) => type === typeOf(value) || (type === 'number' && typeof value === 'number')),
  const: (wanted: unknown, value: unknown) => value === wanted,
  enum: (wanted: unknown[], value: unknown) => wanted.includes(value),
  format: (wanted: string, value: unknown) => typeof value !== 'string' || (FORMATS[wanted]?.test(value) ?? false),
  pattern: (wanted: string, value: unknown) => typeof value !== 'string' || new RegExp(wanted).test(value),
  minimum: (wanted: number, value: unknown) => typeof value !== 'number' || value >= wanted,
  maximum: (wanted: number, value: unknown) => typeof value !== 'number' || value <= wanted,
  minLength: (wanted: number, value: unknown) => typeof value !== 'string' || value.length >= wanted,
  maxLength: (wanted: number, value: unknown) => typeof value !== 'string' || value.length <= wanted,
  minProperties: (wanted: number, value: unknown) => !isObject(value) || Object.keys(value).length >= wanted,
  maxProperties: (wanted: number, value: unknown) => !isObject(value) || Object.keys(value).length <= wanted,
  minItems: (wanted: number, value: unknown) => !Array.isArray(value) || value.length >= wanted,
  maxItems: (wanted: number, value: unknown) => !Array.isArray(value) || value.length <= wanted,
  required: (wanted: string[], value: unknown) => !isObject(value) || wanted.every((name) => name in value),
  anyOf: (wanted: JsonSchema[], value: unknown) => wanted.some((schema) => findProblem(schema, value) === undefined),
  *items(wanted: JsonSchema, value: unknown, _: JsonSchema, path: string) {
    for (const [index, item] of (Array.isArray(value) ? value : []).entries())
      yield* problemsOf(wanted, item, `${path}.${index}`)
  },
  *properties(wanted: Readonly<Record<string, JsonSchema>>, value: unknown, _: JsonSchema, path: string) {
    for (const [name, schema] of Object.entries(wanted))
      if (isObject(value) && value[name] !== undefined) yield* problemsOf(schema, value[name], `${path}.${name}`)
  },
  *additionalProperties(wanted: boolean | JsonSchema, value: unknown, { properties }: JsonSchema, path: string) {
    for (const [name, field] of Object.entries(isObject(value) ? value : {})) {
      if (isObject(properties) && name in properties) continue
      if (wanted === false) yield `${path}.${name} is unknown`
      else if (isObject(wanted)) yield* problemsOf(wanted, field, `${path}.${name}`)
    }
  },
}

const ANNOTATIONS = ['description', 'title', 'default', 'examples', 'x-tassis', '$ref']

function* problemsOf(schema: JsonSchema, value: unknown, path: string): Generator<string> {
  for (const [keyword, wanted] of Object.entries(schema)) {
    if (ANNOTATIONS.includes(keyword)) continue
    const rule = RULES[keyword]
    if (!rule) throw new Error(`the keyword ${keyword} is not known here (${path})`)
    const result = rule(wanted as never, value as never, schema, path)
    if (result === false) yield `${path}: ${JSON.stringify(value)} is not ${keyword} ${JSON.stringify(wanted)}`
    if (typeof result === 'object') yield* result
  }
}

/** The first problem of a value, if there is one. */
export const findProblem = (schema: JsonSchema, value: unknown, path = '$'): string | undefined =>
  problemsOf(schema, value, path).next().value ?? undefined

/** A copy of a schema in which no object has other fields than those that it lists. */
export function closeObjects(schema: unknown): JsonSchema {
  const close = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(close)
    if (!isObject(value)) return value
    const parts = Object.fromEntries(Object.entries(value).map(([name, part]) => [name, close(part)]))
    return parts['type'] === 'object' && isObject(parts['properties'])
      ? { ...parts, additionalProperties: false }
      : parts
  }
  return close(schema) as JsonSchema
}
