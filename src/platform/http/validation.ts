/**
 * @module Checks values against TypeBox schemas and describes errors in plain words. Elysia's own validation is not
 * used: its error copies the whole value into the message, so an invalid body of 35 MB would be an attack. Never
 * changes or echoes a value.
 */
import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import { AppError, type ErrorDetail, invalid } from '../errors.ts'

/** Returns the errors of a value, at most MAX_DETAILS and one per field; empty when it is valid. */
export type Check = (value: unknown) => readonly ErrorDetail[]

export const MAX_DETAILS = 20
/** Several errors can concern the same field. The search for further fields ends after this many errors. */
const MAX_ERRORS_READ = 200
const MAX_FIELD_LENGTH = 128

/** The schema is compiled at the first use, so that the start does not compile a hundred schemas. */
export function createCheck(schema: TSchema, rootName: string): Check {
  let compiled: ReturnType<typeof TypeCompiler.Compile> | undefined
  return (value) => {
    compiled ??= TypeCompiler.Compile(schema)
    return compiled.Check(value) ? [] : collectDetails(compiled.Errors(value), rootName)
  }
}

/** The 422 for `details`; its message names the first field. */
export function invalidFields(details: readonly ErrorDetail[]): AppError {
  const first = details[0]
  const rest = details.length - 1
  const more = rest < 1 ? '' : ` (and ${rest === 1 ? 'one more field' : `${rest} more fields`}, see details)`
  const problem = `${first?.field} ${first?.message}${more}`
  const message = first ? (problem.endsWith('?') ? problem : `${problem}.`) : 'The request is not valid.'
  return new AppError(422, 'validation_failed', message, { details })
}

export const MAX_NAME_LENGTH = 200

/** A name without blanks around it. Throws 422 for one that is empty or too long. */
export function parseName(text: string): string {
  const name = text.trim()
  if (name === '' || name.length > MAX_NAME_LENGTH)
    throw invalid('name', `The name must have 1 to ${MAX_NAME_LENGTH} characters.`)
  return name
}

function collectDetails(errors: Iterable<ValueError>, rootName: string): ErrorDetail[] {
  const details = new Map<string, string>()
  let read = 0
  for (const error of errors) {
    for (const leaf of findLeafErrors(error)) {
      const field = toFieldName(leaf.path, rootName)
      // A missing property has two errors, as missing and then as of the wrong type; the first one counts.
      if (!details.has(field)) details.set(field, describeError(leaf))
      if (details.size >= MAX_DETAILS) break
    }
    if (details.size >= MAX_DETAILS || ++read >= MAX_ERRORS_READ) break
  }
  return [...details].map(([field, message]) => ({ field, message }))
}

/**
 * TypeBox reports one error for a union as a whole. The errors of the variant that has the value's type say more, so
 * they replace it, unless the union has its own error text.
 */
function* findLeafErrors(error: ValueError): Generator<ValueError> {
  const { type, value, schema } = error
  const isOpen = type === ValueErrorType.Union && schema['errorMessage'] === undefined
  if (isOpen && value !== null && (typeof value === 'object' || typeof value === 'string')) {
    const kind = Array.isArray(value) ? 'array' : typeof value
    const variants: readonly TSchema[] = schema['anyOf']
    const index = variants.findIndex((variant) => variant['type'] === kind && !('const' in variant))
    const nested = index === -1 ? undefined : error.errors[index]
    if (nested) {
      for (const inner of nested) yield* findLeafErrors(inner)
      return
    }
  }
  yield error
}

/** Converts `/attachments/0/filename` (RFC 6901) to `attachments.0.filename`. */
function toFieldName(path: string, rootName: string): string {
  if (path === '') return rootName
  return shortenField(path.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Truncates a field name for an error message. */
export const shortenField = (field: string): string =>
  field.length > MAX_FIELD_LENGTH ? `${field.slice(0, MAX_FIELD_LENGTH)}…` : field

const pluralise = (count: unknown, noun: string): string => `${String(count)} ${noun}${count === 1 ? '' : 's'}`

/** In a property's options: `x-missing` adds an explanation when it is missing, `x-null` says what null is. */
function describeError({ type, schema, path, value }: ValueError): string {
  switch (type) {
    case ValueErrorType.ObjectRequiredProperty:
      return typeof schema['x-missing'] === 'string' ? `is required: ${schema['x-missing']}` : 'is required'
    case ValueErrorType.ObjectAdditionalProperties:
      return describeUnknownField(path.slice(path.lastIndexOf('/') + 1), schema)
    case ValueErrorType.Never:
      return 'is not a known field'
    case ValueErrorType.StringMinLength:
      return schema['minLength'] === 1
        ? 'must not be empty'
        : `must have at least ${pluralise(schema['minLength'], 'character')}`
    case ValueErrorType.StringMaxLength:
      return `must have at most ${pluralise(schema['maxLength'], 'character')}`
    case ValueErrorType.ArrayMinItems:
      return `must have at least ${pluralise(schema['minItems'], 'item')}`
    case ValueErrorType.ArrayMaxItems:
      return `must have at most ${pluralise(schema['maxItems'], 'item')}`
    case ValueErrorType.ObjectMinProperties:
      return `must have at least ${pluralise(schema['minProperties'], 'field')}`
    case ValueErrorType.ObjectMaxProperties:
      return `must have at most ${pluralise(schema['maxProperties'], 'field')}`
    case ValueErrorType.ArrayUniqueItems:
      return 'must not contain an item twice'
    case ValueErrorType.IntegerMinimum:
    case ValueErrorType.NumberMinimum:
      return `must be at least ${schema['minimum']}`
    case ValueErrorType.IntegerMaximum:
    case ValueErrorType.NumberMaximum:
      return `must be at most ${schema['maximum']}`
    default:
      return (value === null && schema['x-null']) || `must be ${describeSchema(schema)}`
  }
}

/**
 * Names the field that was probably meant: one that other providers call so (`x-also-called` in its options), or whose
 * name is the same but for case and separators, or begins with this one. `x-names` says what the names of a record are.
 */
function describeUnknownField(name: string, schema: TSchema): string {
  if (schema['x-names'] !== undefined) return `must have a name of ${schema['x-names']}`
  const properties: Readonly<Record<string, TSchema>> = schema['properties'] ?? {}
  const plain = toPlainName(name)
  const meant = Object.entries(properties).find(
    ([known, { 'x-also-called': others = [] }]) =>
      toPlainName(known) === plain ||
      (plain.length >= 4 && toPlainName(known).startsWith(plain)) ||
      others.some((other: string) => toPlainName(other) === plain),
  )
  return meant ? `is not a known field; did you mean ${meant[0]}?` : 'is not a known field'
}

const toPlainName = (name: string): string => name.slice(0, MAX_FIELD_LENGTH).replaceAll(/[-_]/g, '').toLowerCase()

/** What a schema requires, as the text after "must be". `errorMessage` in the schema's options is used unchanged. */
function describeSchema(schema: TSchema): string {
  if (typeof schema['errorMessage'] === 'string') return schema['errorMessage']
  if (Array.isArray(schema['anyOf'])) {
    const variants: readonly TSchema[] = schema['anyOf']
    const constants = variants.filter((v) => 'const' in v)
    if (constants.length > 1 && constants.length === variants.length) {
      return `one of ${constants.map((v) => String(v['const'])).join(', ')}`
    }
    return [...new Set(variants.map(describeSchema))].join(' or ')
  }
  if ('const' in schema) return JSON.stringify(schema['const'])
  switch (schema['type']) {
    case 'string':
      return typeof schema['format'] === 'string' ? `a ${schema['format']} string` : describeString(schema)
    case 'integer':
      return 'a whole number'
    case 'number':
      return 'a number'
    case 'boolean':
      return 'true or false'
    case 'array':
      return 'an array'
    case 'object':
      return 'an object'
    case 'null':
      return 'null'
    default:
      return 'of the documented form'
  }
}

const describeString = (schema: TSchema): string =>
  typeof schema['pattern'] === 'string' ? 'a string of the documented form' : 'a string'
