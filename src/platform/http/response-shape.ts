/**
 * @module Filters responses by their schema: undeclared fields never reach a client, whatever the handler returned.
 * Elysia's own filter is off, since it would also silently drop unknown fields of requests. Strict clients, which refuse
 * fields or statuses that they do not know, get only those of the interface: schemas mark all others.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { isJsonObject } from '../json-object.ts'

/** Returns the value without undeclared fields; does not modify it. */
export type FieldFilter = (value: unknown) => unknown

/** Marks a field that the interface does not have; see `extra` in schemas.ts. Also in the API description. */
export const EXTRA = 'x-tassis'
/** Names the values that strict clients get instead of others; see `withStrictStatus` in schemas.ts. */
export const STRICT_VALUES = 'x-strict-values'

const keepAsIs: FieldFilter = (value) => value

/**
 * Creates the filter for a schema. The filter also drops properties that are `undefined`. It returns a value of the
 * wrong type unchanged, so that the schema check refuses the value. An object with arbitrary names must be a Record or
 * Unknown: `additionalProperties` has no effect here, because Elysia adds it to schemas.
 * @param isStrict for strict clients; the value must already have passed the ordinary filter and the schema check
 */
export function createFieldFilter(schema: TSchema, isStrict = false): FieldFilter {
  if (isStrict && schema[STRICT_VALUES] !== undefined) return createValueFilter(schema[STRICT_VALUES])
  if (Array.isArray(schema['anyOf']))
    return isStrict ? createStrictUnionFilter(schema['anyOf']) : createUnionFilter(schema['anyOf'])
  if (Array.isArray(schema['allOf'])) {
    throw new TypeError('a response schema must not be an Intersect; use Type.Composite or spread the properties')
  }
  if (schema[Kind] === 'Record') return createRecordFilter(schema, isStrict)
  if (schema['type'] === 'object') return createObjectFilter(schema, isStrict)
  if (schema['type'] === 'array') return createArrayFilter(schema, isStrict)
  return keepAsIs
}

function createObjectFilter(schema: TSchema, isStrict: boolean): FieldFilter {
  const properties: Record<string, TSchema> = schema['properties'] ?? {}
  const fields = Object.entries(properties)
    .filter(([, property]) => !isStrict || property[EXTRA] !== true)
    .map(([name, property]) => [name, createFieldFilter(property, isStrict)] as const)
  return (value) => {
    if (!isJsonObject(value)) return value
    const result: Record<string, unknown> = {}
    for (const [name, cut] of fields) {
      const field = value[name]
      if (field !== undefined) result[name] = cut === keepAsIs ? field : cut(field)
    }
    return result
  }
}

function createArrayFilter(schema: TSchema, isStrict: boolean): FieldFilter {
  const items: TSchema | readonly TSchema[] | undefined = schema['items']
  if (items === undefined || Array.isArray(items)) return keepAsIs
  const cut = createFieldFilter(items as TSchema, isStrict)
  return cut === keepAsIs ? keepAsIs : (value) => (Array.isArray(value) ? value.map(cut) : value)
}

function createRecordFilter(schema: TSchema, isStrict: boolean): FieldFilter {
  const [item]: TSchema[] = Object.values(schema['patternProperties'] ?? {})
  const cut = item ? createFieldFilter(item, isStrict) : keepAsIs
  if (cut === keepAsIs) return keepAsIs
  return (value) =>
    isJsonObject(value) ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, cut(field)])) : value
}

function createUnionFilter(variants: readonly TSchema[]): FieldFilter {
  const cutters = variants.map((variant) => createFieldFilter(variant))
  const cutting = cutters.flatMap((cut, i) => (cut === keepAsIs ? [] : [{ cut, schema: variants[i] as TSchema }]))
  const [only] = cutting
  if (!only) return keepAsIs
  if (cutting.length === 1) {
    // One filter is enough for unions such as T or null, and T or a string: the filter for T returns other types
    // unchanged.
    const isFree = variants.some(
      (v, i) => cutters[i] === keepAsIs && (v['type'] === undefined || v['type'] === 'object'),
    )
    if (!isFree) return only.cut
  }
  // Compiled when first needed: compiling those of all routes would take a tenth of the start.
  let checks: TypeCheck<TSchema>[] | undefined
  return (value) => {
    checks ??= variants.map((variant) => TypeCompiler.Compile(variant))
    for (const [i, check] of checks.entries()) {
      const result = (cutters[i] ?? keepAsIs)(value)
      if (check.Check(result)) return result
    }
    return value
  }
}

/** Cuts by the variant of which the whole value is: a cut value may be of none. */
function createStrictUnionFilter(variants: readonly TSchema[]): FieldFilter {
  const filters = variants.map((variant) => ({
    check: TypeCompiler.Compile(variant),
    cut: createFieldFilter(variant, true),
  }))
  if (filters.every(({ cut }) => cut === keepAsIs)) return keepAsIs
  return (value) => filters.find(({ check }) => check.Check(value))?.cut(value) ?? value
}

const createValueFilter =
  (values: Readonly<Record<string, string>>): FieldFilter =>
  (value) =>
    typeof value === 'string' && Object.hasOwn(values, value) ? values[value] : value
