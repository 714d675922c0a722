/**
 * @module Filters responses by their schema: undeclared fields never reach a client, whatever the handler returned.
 * Elysia's own filter is off, since it would also silently drop unknown fields of requests.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'

/** Returns the value without undeclared fields; does not modify it. */
export type FieldFilter = (value: unknown) => unknown

const keepAsIs: FieldFilter = (value) => value

/**
 * Creates the filter for a schema. The filter also drops properties that are `undefined`. It returns a value of the
 * wrong type unchanged, so that the schema check refuses the value. An object with arbitrary names must be a Record or
 * Unknown: `additionalProperties` has no effect here, because Elysia adds it to schemas.
 */
export function createFieldFilter(schema: TSchema): FieldFilter {
  if (Array.isArray(schema['anyOf'])) return createUnionFilter(schema['anyOf'])
  if (Array.isArray(schema['allOf'])) {
    throw new TypeError('a response schema must not be an Intersect; use Type.Composite or spread the properties')
  }
  if (schema[Kind] === 'Record') return createRecordFilter(schema)
  if (schema['type'] === 'object') return createObjectFilter(schema)
  if (schema['type'] === 'array') return createArrayFilter(schema)
  return keepAsIs
}

function createObjectFilter(schema: TSchema): FieldFilter {
  const properties: Record<string, TSchema> = schema['properties'] ?? {}
  const fields = Object.entries(properties).map(([name, property]) => [name, createFieldFilter(property)] as const)
  return (value) => {
    if (!isObject(value)) return value
    const result: Record<string, unknown> = {}
    for (const [name, cut] of fields) {
      const field = value[name]
      if (field !== undefined) result[name] = cut === keepAsIs ? field : cut(field)
    }
    return result
  }
}

function createArrayFilter(schema: TSchema): FieldFilter {
  const items: TSchema | readonly TSchema[] | undefined = schema['items']
  if (items === undefined || Array.isArray(items)) return keepAsIs
  const cut = createFieldFilter(items as TSchema)
  return cut === keepAsIs ? keepAsIs : (value) => (Array.isArray(value) ? value.map(cut) : value)
}

function createRecordFilter(schema: TSchema): FieldFilter {
  const [item]: TSchema[] = Object.values(schema['patternProperties'] ?? {})
  const cut = item ? createFieldFilter(item) : keepAsIs
  if (cut === keepAsIs) return keepAsIs
  return (value) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, cut(field)])) : value
}

function createUnionFilter(variants: readonly TSchema[]): FieldFilter {
  const cutters = variants.map(createFieldFilter)
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

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
