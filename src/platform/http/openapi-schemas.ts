/**
 * @module Turns the schemas that validate requests and responses into standard ones for the API description: our own
 * keywords (`x-integer`, `x-missing`, `x-also-called`, `errorMessage`) become those of JSON Schema. `x-tassis` stays: it
 * marks fields beyond the interface.
 */
import { isJsonObject } from '../json-object.ts'
import { CSV_TYPE } from './csv.ts'
import { createExample, type Schema } from './openapi-examples.ts'
import { STRICT_VALUES } from './response-shape.ts'

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { [name: string]: Json }

/**
 * Removes content types that are not accepted: the collector repeats every schema for each of them. CSV and files stay
 * as they are.
 * @param isWhole whether the example has the optional fields, too
 */
export function keepJsonOnly(content: Json, isWhole: boolean): JsonObject {
  const { [CSV_TYPE]: csv, 'application/json': json } = toObject(content)
  if (csv !== undefined) return { [CSV_TYPE]: csv }
  if (json === undefined) return toObject(content)
  const { schema } = toObject(json)
  if (schema === undefined) return { 'application/json': {} }
  const standard = toStandardSchema(schema)
  const example = createExample(standard as Schema, isWhole) as Json
  return { 'application/json': { schema: standard, example } }
}

export function finishParameter(parameter: Json): JsonObject {
  const { schema, ...rest } = toObject(parameter)
  const { description, anyOf, ...standard } = toObject(toStandardSchema(schema ?? {}))
  // A path parameter is always text in the description; null in a schema is only what handlers get for a broken
  // encoding.
  const variants = toArray(anyOf).filter((variant) => rest['in'] !== 'path' || toObject(variant)['type'] !== 'null')
  const [only] = variants
  if (variants.length === 1) Object.assign(standard, only)
  else if (variants.length > 1) standard['anyOf'] = variants
  return { ...rest, ...(description === undefined ? {} : { description }), schema: standard }
}

/** Replaces our own keywords by those of JSON Schema, recursively. */
export function toStandardSchema(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(toStandardSchema)
  if (!isObject(schema)) return schema
  const {
    errorMessage: _,
    'x-missing': __,
    'x-also-called': ___,
    'x-format': format,
    'x-integer': integer,
    [STRICT_VALUES]: ____,
    ...rest
  } = schema
  if (integer !== undefined) return { type: 'integer', ...toObject(integer) }
  const { anyOf, patternProperties, ...others } = rest
  const result: JsonObject = {}
  for (const [name, value] of Object.entries(others)) {
    // Examples, defaults and constants are values, not schemas.
    result[name] = VALUE_KEYWORDS.has(name) ? value : toStandardSchema(value)
  }
  if (format !== undefined) result['format'] = format
  if (patternProperties !== undefined) {
    result['additionalProperties'] = toStandardSchema(Object.values(toObject(patternProperties))[0] ?? true)
  }
  return anyOf === undefined ? result : { ...result, ...toStandardUnion(toArray(anyOf)) }
}

const VALUE_KEYWORDS = new Set(['const', 'default', 'enum', 'example', 'examples', 'required'])

function toStandardUnion(variants: readonly Json[]): JsonObject {
  // Only PHP clients send an empty array in place of an empty map, so the description leaves that alternative out.
  const recommended = variants.filter((variant) => toObject(variant)['maxItems'] !== 0)
  const constants = recommended.filter((variant) => typeof toObject(variant)['const'] === 'string')
  if (constants.length > 1 && constants.length === recommended.length) {
    return { type: 'string', enum: constants.map((variant) => toObject(variant)['const'] ?? null) }
  }
  // Any value, null included.
  if (recommended.some((variant) => Object.keys(toObject(variant)).every((name) => name === 'description'))) return {}
  const [only] = recommended
  return recommended.length === 1 && only !== undefined
    ? toObject(toStandardSchema(only))
    : { anyOf: recommended.map(toStandardSchema) }
}

export const isObject = (value: Json | undefined): value is JsonObject => isJsonObject(value)

export const toObject = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})

export const toArray = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? value : [])
