/**
 * @module Turns the schemas that validate requests and responses into standard ones for the API description: our own
 * keywords (`x-integer`, `x-missing`, `x-also-called`, `errorMessage`) become those of JSON Schema. `x-tassis` stays: it
 * marks fields beyond the interface. Creates an example of each: of requests, the required fields; of responses, all.
 */
import { isJsonObject } from '#platform/json-object.ts'
import { CSV_TYPE } from './download.ts'
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

/** What examples and pages read of a schema of the description. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
}

const BY_FORMAT: Readonly<Record<string, string>> = {
  uuid: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24',
  'date-time': '2026-01-31T09:30:00.000Z',
  date: '2026-01-31',
  email: 'ada@example.com',
  uri: 'https://example.com/',
}

/** Examples of texts by the name of the field. */
const BY_NAME: readonly (readonly [name: RegExp, example: string])[] = [
  [/^(?:from|from_address|reply_to|sender|mail_from|from_header|welcome_email_from_address)$/, 'news@example.com'],
  [
    /^(?:to|cc|bcc|email|address|recipients?|complainer|received_for)$|^(?:to|cc|email)_|_email$|rcpt_to/,
    'ada@example.net',
  ],
  [/message_id$|^in_reply_to$|^references$/, '<01980f4e6b1c7d3a@example.com>'],
  [/url$|link$/, 'https://example.com/'],
  [/^domains?$|_domain$|^host$|hostname$|^zone$/, 'example.com'],
  [/^ip$|_ip$|ip_address$|^networks$|^inbound_addr$/, '192.0.2.1'],
  [/subject/, 'Your invoice'],
  [/html/, '<p>Thank you.</p>'],
  [/text/, 'Thank you.'],
  [/^filename$/, 'invoice.pdf'],
  [/content_type$/, 'application/pdf'],
  [/^content$/, 'aGVsbG8='],
  [/password/, 'correct horse battery staple'],
  [/color$/, '#1a2b3c'],
  [/smtp_response$|diagnostic_code$/, '550 5.1.1 No such user'],
  [/bounce_category$/, 'invalid_recipient'],
  [/user_agent$/, 'Mozilla/5.0'],
  [/remote_mta$/, 'mx.example.net [192.0.2.25]'],
  [/^date$/, '2026-01-31'],
  [/^month$/, '2026-01'],
  [/alias$|slug$|^tags?$|^labels?$/, 'invoice'],
  [/stream$/, 'transactional'],
  [/^plan$/, 'starter'],
  [/^status$/, 'queued'],
  [/(?:^|_)(?:message|reason|error|summary|detail|details|description|advice|warnings)$/, 'A sentence about it.'],
  [/name$/, 'Example'],
  [/_at$/, '2026-01-31T09:30:00.000Z'],
  [/^id$|_id$/, '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24'],
]

/** Where the description of a text states one: "such as x", "Always x.", "Default: x", "x, y or z". */
const STATED: readonly RegExp[] = [
  /\bsuch as `?([^\s,;`]+?)`?[.,;]/i,
  /^Always (\S+)\.$/,
  /Default: ([^.]+)/,
  /(?:^|: |One of )`?([a-z][a-z0-9_]*)`?(?:, `?[a-z][a-z0-9_.]*`?)*,? or `?[a-z]/,
  /^([a-z_]+): /,
]

/**
 * @param isWhole also the fields that are not required
 * @param name of the field that has this schema
 */
function createExample(schema: Schema, isWhole: boolean, name = ''): unknown {
  const { type, examples, anyOf, items, description, properties = {}, required = [], minimum } = schema
  if (examples?.[0] !== undefined) return examples[0]
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  const variant = anyOf?.find((each) => each.type !== 'null') ?? anyOf?.[0]
  if (variant) return createExample({ ...(description && { description }), ...variant }, isWhole, name)
  const kind = typeof type === 'string' ? type : type?.find((each) => each !== 'null')
  switch (kind) {
    case 'array':
      return items ? [createExample({ ...(description && { description }), ...items }, isWhole, name)] : []
    case 'object':
      return Object.fromEntries(
        Object.entries(properties).flatMap(([field, part]) =>
          isWhole || required.includes(field) ? [[field, createExample(part, isWhole, field)]] : [],
        ),
      )
    case 'integer':
    case 'number':
      return schema.default ?? minimum ?? 1
    case 'boolean':
      return schema.default ?? true
    case 'string':
      return createText(schema, name)
    default:
      return kind === 'null' ? null : {}
  }
}

function createText(schema: Schema, name: string): string {
  const { format, description = '', maxLength = Number.POSITIVE_INFINITY, minLength = 0 } = schema
  const stated = STATED.map((pattern) => pattern.exec(description)?.[1]).find((text) => text !== undefined)
  const text = (format && BY_FORMAT[format]) ?? (stated === 'empty' ? '' : stated) ?? findByName(name) ?? 'example'
  return text.slice(0, maxLength).padEnd(minLength, 'x')
}

/** @param name of the field, also in PascalCase as other providers write it */
function findByName(name: string): string | undefined {
  const words = name.replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase()
  return BY_NAME.find(([pattern]) => pattern.test(words))?.[1]
}
