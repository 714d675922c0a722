/**
 * @module Building blocks for schemas of requests and responses. Schemas use `Type` of @sinclair/typebox, never
 * Elysia's `t`, whose numbers and booleans accept strings. Models with many fields import all of this as `S`.
 */
import {
  type ObjectOptions,
  type SchemaOptions,
  type Static,
  type TObject,
  type TProperties,
  type TSchema,
  Type,
} from '@sinclair/typebox'
import type { RowKey, RowWindow } from '#platform/db/open.ts'
import { type AppError, attempt, notFound } from '../errors.ts'
import { parseUuid, type UuidBytes } from '../ids.ts'
import { EXTRA, STRICT_VALUES } from './response-shape.ts'
import { invalidFields } from './validation.ts'

/** An object that refuses undeclared fields: request bodies and their typed parts. */
export const StrictObject = <T extends TProperties>(properties: T, options: ObjectOptions = {}): TObject<T> =>
  Type.Object(properties, { ...options, additionalProperties: false })

export const Nullable = <T extends TSchema>(schema: T, options: SchemaOptions = {}) =>
  Type.Union([schema, Type.Null()], options)

/** The property may be left out, and may be null. */
export const OptionalNullable = <T extends TSchema>(schema: T, options: SchemaOptions = {}) =>
  Type.Optional(Nullable(schema, options))

/** One of the given strings; the 422 lists them. */
export const StringEnum = <const T extends readonly string[]>(values: T, options: SchemaOptions = {}) =>
  // The type is explicit, because in responses Elysia infers `never` for a union of a list.
  Type.Unsafe<T[number]>(
    Type.Union(
      values.map((value) => Type.Literal(value)),
      options,
    ),
  )

/** A date-time in a response. It is not validated, because we write it ourselves. */
export const Timestamp = (options: SchemaOptions = {}) => Type.String({ ...options, 'x-format': 'date-time' })

/** A UUID in a response. */
export const Uuid = (options: SchemaOptions = {}) => Type.String({ ...options, 'x-format': 'uuid' })

export const Text = (description: string) => Type.String({ description })

export const TextOrNull = (description: string) => Nullable(Type.String(), { description })

export const TimeOrNull = (description: string) => Nullable(Timestamp(), { description })

export const UuidOrNull = (description: string) => Nullable(Uuid(), { description })

export const Count = (description: string) => Type.Integer({ description })

export const CountOrNull = (description: string) => Nullable(Type.Integer(), { description })

export const Bytes = (description: string) => Type.Integer({ description: `${description}, in bytes.` })

/** A part of a response with fields of its own. */
export const Part = <T extends TProperties>(description: string, fields: T) => Type.Object(fields, { description })

export const NullablePart = <T extends TProperties>(description: string, fields: T) =>
  Nullable(Type.Object(fields), { description })

export const MAX_FILTER_LENGTH = 320

/** A text that selects rows in a query, or what a body names; it may be left out. */
export const Filter = (description: string) => Type.Optional(Type.String({ maxLength: MAX_FILTER_LENGTH, description }))

/** An object with arbitrary names, such as `metadata`; `mapFromPhp` reads it. */
export const FreeMap = (options: SchemaOptions = {}) =>
  Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown(), { maxItems: 0 })], {
    ...options,
    errorMessage: 'an object',
  })

/** Converts `[]`, PHP's encoding of an empty map, to an empty map. Leaves undefined and null unchanged. */
export const mapFromPhp = <Missing extends null | undefined = never>(
  value: Record<string, unknown> | readonly unknown[] | Missing,
) => (Array.isArray(value) ? {} : value) as Record<string, unknown> | Missing

/** Marks a field of a response that the interface does not have: strict clients do not get it. */
export const extra = <T extends TSchema>(schema: T): T => ({ ...schema, [EXTRA]: true })

/** Marks all of these fields; see `extra`. */
export const extraFields = <T extends TProperties>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, extra(schema)])) as T

/** Marks a status, or a type of event, of which strict clients get only the values that the interface names. */
export const withStrictStatus = <T extends TSchema>(schema: T): T => ({
  ...schema,
  [STRICT_VALUES]: { uncertain: 'sent', rejected: 'failed', draft: 'scheduled' },
})

/** `{data: T}` as a response. */
export const DataBody = <T extends TSchema>(schema: T) => Type.Object({ data: schema })

/** `{data: T[], pagination}` as a response. */
export const PageBody = <T extends TSchema>(schema: T) =>
  Type.Object({ data: Type.Array(schema), pagination: PaginationSchema })

export const PaginationSchema = Type.Object({
  page: Type.Integer({ description: 'Number of this page, from 1.' }),
  per_page: Type.Integer({ description: 'Maximum number of rows on a page.' }),
  total: Type.Integer({ description: 'Rows on all pages.' }),
  total_pages: Type.Integer({ description: 'Number of pages; 0 for an empty list.' }),
  next_cursor: extra(
    Type.Optional(
      Type.String({
        description:
          'Value of the parameter `cursor` for the next page; missing on the last page. The next page may be empty.',
      }),
    ),
  ),
})

const WHOLE_NUMBER = /^\d{1,15}$/

/** An integer in a query. Handlers get it as a string; `parseQueryInteger` parses it. */
export const QueryInteger = (options: SchemaOptions & { minimum?: number; maximum?: number; default?: number } = {}) =>
  Type.Optional(Type.String({ 'x-integer': options }))

/**
 * Parses digits; `fallback` when `text` is missing. `1.5`, `1e3`, `-1`, an empty text and numbers outside
 * `minimum..maximum` are a 422 on `field`.
 */
export function parseQueryInteger(
  field: string,
  text: string | undefined,
  { fallback, minimum, maximum }: { fallback: number; minimum: number; maximum: number },
): number {
  if (text === undefined) return fallback
  const value = WHOLE_NUMBER.test(text) ? Number(text) : Number.NaN
  if (value >= minimum && value <= maximum) return value
  throw invalidFields([{ field, message: `must be a whole number from ${minimum} to ${maximum}` }])
}

const MAX_PAGE = 1_000_000_000
const DEFAULT_PER_PAGE = 25
const MAX_PER_PAGE = 100
/** Maximum offset: skipping so many rows takes some milliseconds. Rows further on are reached by cursors. */
export const MAX_OFFSET = 10_000

/**
 * The query fields of every paged list, to spread into a query schema: `StrictObject({ ...PAGE_FIELDS, status: ... })`.
 */
export const PAGE_FIELDS = {
  page: QueryInteger({ minimum: 1, default: 1, description: 'Number of the page, from 1.' }),
  per_page: QueryInteger({
    minimum: 1,
    maximum: MAX_PER_PAGE,
    default: DEFAULT_PER_PAGE,
    description: 'Rows on a page.',
  }),
  cursor: Type.Optional(
    Type.String({
      description: `\`next_cursor\` of the previous page, instead of \`page\`: faster, and the only way beyond the first ${MAX_OFFSET} rows.`,
    }),
  ),
}

/** The query of a list without filters. */
export const PageQuery = Type.Object(PAGE_FIELDS)

export interface Page extends RowWindow {
  readonly page: number
  readonly perPage: number
  /** Number of rows of the list before this page. */
  readonly rowsBefore: number
  /**
   * The parameter that requests rows which only a cursor can reach; `offset` is then MAX_OFFSET instead of the
   * requested offset.
   */
  readonly tooDeepField?: string | undefined
}

/**
 * Parses `page` or `cursor`, and `per_page`. Throws a 422 when a number is out of range or not whole, or when `cursor`
 * is not a cursor.
 */
export function parsePage(query: Static<typeof PageQuery>): Page {
  const perPage = parseRowCount('per_page', query.per_page)
  if (query.cursor !== undefined) {
    refuseTogether('cursor', query, ['page'])
    return parsePageAfter(query.cursor, perPage)
  }
  const page = parseQueryInteger('page', query.page, { fallback: 1, minimum: 1, maximum: MAX_PAGE })
  return { page, perPage, limit: perPage, ...toOffset('page', (page - 1) * perPage) }
}

const parseRowCount = (field: string, text: string | undefined): number =>
  parseQueryInteger(field, text, { fallback: DEFAULT_PER_PAGE, minimum: 1, maximum: MAX_PER_PAGE })

/**
 * The query fields of a list whose rows are requested by `limit` and `offset`, or by `page` and `per_page` as in all
 * other lists.
 */
export const ROW_RANGE_FIELDS = {
  limit: QueryInteger({
    minimum: 1,
    maximum: MAX_PER_PAGE,
    default: DEFAULT_PER_PAGE,
    description: 'Maximum number of rows to return.',
  }),
  offset: QueryInteger({ minimum: 0, default: 0, description: 'Number of rows to skip.' }),
  page: { ...PAGE_FIELDS.page, description: 'Number of the page, from 1, instead of offset.' },
  per_page: { ...PAGE_FIELDS.per_page, description: 'Rows on a page, instead of limit.' },
  cursor: PAGE_FIELDS.cursor,
}

export const RowRangeQuery = Type.Object(ROW_RANGE_FIELDS)

/**
 * Parses the requested rows; 422 for values that are not whole numbers or out of range, or when both forms are mixed.
 */
export function parseRowRange(query: Static<typeof RowRangeQuery>): Page {
  if (query.limit === undefined && query.offset === undefined) return parsePage(query)
  refuseTogether('limit or offset', query, ['page', 'per_page'])
  const limit = parseRowCount('limit', query.limit)
  if (query.cursor !== undefined) {
    refuseTogether('cursor', query, ['offset'])
    return parsePageAfter(query.cursor, limit)
  }
  const given = parseQueryInteger('offset', query.offset, { fallback: 0, minimum: 0, maximum: MAX_PAGE })
  return { limit, page: Math.floor(given / limit) + 1, perPage: limit, ...toOffset('offset', given) }
}

function parsePageAfter(cursor: string, perPage: number): Page {
  const { rowsBefore, key } = parseCursor(cursor)
  const page = { page: Math.floor(rowsBefore / perPage) + 1, perPage, limit: perPage }
  return key ? { ...page, offset: 0, after: key, rowsBefore } : { ...page, ...toOffset('cursor', rowsBefore) }
}

/**
 * Formats a list cursor: an opaque text that marks where the next page begins, so that deep pages cost as much as the
 * first. Not signed: it only selects among rows that the list would show anyway.
 * @param rowsBefore number of rows before the next page
 * @param key key of the last row before the next page; left out for a list of limited length
 */
export const formatCursor = (rowsBefore: number, key: RowKey | undefined): string =>
  Buffer.from(JSON.stringify([rowsBefore, ...(key ?? [])])).toString('base64url')

const MAX_CURSOR_LENGTH = 2048

/** Throws a 422 for a text that is not a cursor. */
export function parseCursor(text: string): { readonly rowsBefore: number; readonly key: RowKey | undefined } {
  const [rowsBefore, ...key] = text.length > MAX_CURSOR_LENGTH ? [] : readCursorValues(text)
  if (!isCount(rowsBefore) || !key.every((value) => typeof value === 'string' || isCount(value)))
    throw invalidFields([{ field: 'cursor', message: 'must be the next_cursor of a page, unchanged' }])
  return { rowsBefore, key: key.length === 0 ? undefined : (key as RowKey) }
}

function readCursorValues(text: string): readonly unknown[] {
  const values: unknown = attempt(() => JSON.parse(Buffer.from(text, 'base64url').toString()))
  return Array.isArray(values) ? values : []
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** The fields of a page that begins after the first `rows` rows. */
const toOffset = (field: string, rows: number): Pick<Page, 'offset' | 'rowsBefore' | 'tooDeepField'> => ({
  offset: Math.min(rows, MAX_OFFSET),
  rowsBefore: rows,
  tooDeepField: rows > MAX_OFFSET ? field : undefined,
})

/**
 * Throws a 422 for a page that only a cursor can reach. Does not throw for a page past the end of the list, which is
 * empty.
 */
export function requireReachable(
  { tooDeepField, rowsBefore }: Pick<Page, 'tooDeepField' | 'rowsBefore'>,
  total: number,
): void {
  if (tooDeepField === undefined || rowsBefore >= total) return
  throw invalidFields([
    {
      field: tooDeepField,
      message: `reaches beyond the first ${MAX_OFFSET} rows; continue with cursor, the pagination.next_cursor of the previous page`,
    },
  ])
}

/** Throws a 422 when `name` is combined with one of the `others`, which would specify the same thing. */
function refuseTogether(name: string, query: Readonly<Record<string, unknown>>, others: readonly string[]): void {
  for (const field of others)
    if (query[field] !== undefined) throw invalidFields([{ field, message: `cannot be combined with ${name}` }])
}

/**
 * The id in a path as bytes. An invalid UUID gets the same 404 as an unknown id.
 * @param code such as `domain_not_found`
 * @param noun such as `domain`, for the message `Domain not found.`
 */
export function parseUuidParam(text: string, code: string, noun: string): UuidBytes {
  const id = parseUuid(text)
  if (id === undefined) throw notFoundById(code, noun)
  return id
}

/** The 404 for an id that does not exist in this account. */
export const notFoundById = (code: string, noun: string): AppError =>
  notFound(code, `${noun.charAt(0).toUpperCase()}${noun.slice(1)} not found.`)
