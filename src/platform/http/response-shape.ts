/**
 * @module Cuts responses to their schema: fields that a schema does not declare never reach a client, whatever the handler returned.
 * Elysia's own cutter is off, since it would also silently drop unknown fields of requests.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'

/** Gives the value without undeclared fields; the value itself is left as it is. */
export type Cut = (value: unknown) => unknown

const asIs: Cut = (value) => value

/**
 * The cutter of a schema; `undefined` properties are dropped too. A value of the wrong type is passed on, for the check to refuse. What is to
 * keep names of any kind is a Record or Unknown: `additionalProperties` counts for nothing here, because Elysia writes it into schemas.
 */
export function cutterOf(schema: TSchema): Cut {
  if (Array.isArray(schema['anyOf'])) return cutUnion(schema['anyOf'])
  if (Array.isArray(schema['allOf'])) {
    throw new TypeError('a response schema must not be an Intersect; use Type.Composite or spread the properties')
  }
  if (schema[Kind] === 'Record') return cutRecord(schema)
  if (schema['type'] === 'object') return cutObject(schema)
  if (schema['type'] === 'array') return cutArray(schema)
  return asIs
}

function cutObject(schema: TSchema): Cut {
  const properties: Record<string, TSchema> = schema['properties'] ?? {}
  const fields = Object.entries(properties).map(([name, property]) => [name, cutterOf(property)] as const)
  return (value) => {
    if (!isObject(value)) return value
    const result: Record<string, unknown> = {}
    for (const [name, cut] of fields) {
      const field = value[name]
      if (field !== undefined) result[name] = cut === asIs ? field : cut(field)
    }
    return result
  }
}

function cutArray(schema: TSchema): Cut {
  const items: TSchema | readonly TSchema[] | undefined = schema['items']
  if (items === undefined || Array.isArray(items)) return asIs
  const cut = cutterOf(items as TSchema)
  return cut === asIs ? asIs : (value) => (Array.isArray(value) ? value.map(cut) : value)
}

function cutRecord(schema: TSchema): Cut {
  const [item]: TSchema[] = Object.values(schema['patternProperties'] ?? {})
  const cut = item ? cutterOf(item) : asIs
  if (cut === asIs) return asIs
  return (value) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, cut(field)])) : value
}

function cutUnion(variants: readonly TSchema[]): Cut {
  const cutters = variants.map(cutterOf)
  const cutting = cutters.flatMap((cut, i) => (cut === asIs ? [] : [{ cut, schema: variants[i] as TSchema }]))
  const [only] = cutting
  if (!only) return asIs
  if (cutting.length === 1) {
    // T or null, T or a string: a cutter passes on what is not of its type.
    const isFree = variants.some((v, i) => cutters[i] === asIs && (v['type'] === undefined || v['type'] === 'object'))
    if (!isFree) return only.cut
  }
  const checks = variants.map((variant) => TypeCompiler.Compile(variant))
  return (value) => {
    for (const [i, check] of checks.entries()) {
      const result = (cutters[i] ?? asIs)(value)
      if (check.Check(result)) return result
    }
    return value
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
