/** @module What the API returns: its two envelopes, the wire form of times, and of rows, by the schema of the response. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { RowKey } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { formatCursor, type Page, type PaginationSchema, requireReachable } from './schemas.ts'

/** `{data}`. */
export const dataBody = <T>(data: T): { data: T } => ({ data })

/**
 * A page as `parsePage` returns it, with the total; a list that always fits one page leaves out `rowsBefore`,
 * `tooDeepField` and `after`.
 */
export type PageResult = Pick<Page, 'page' | 'perPage'> &
  Partial<Pick<Page, 'rowsBefore' | 'tooDeepField' | 'after'>> & {
    readonly total: number
    /** For a list whose total is not counted to the end: whether more rows follow. */
    readonly hasMore?: boolean
  }

/**
 * `{data, pagination}`. A page past the end has empty `data`; an empty list has 0 `total_pages`. Throws a 422 for a
 * page that only a cursor can reach.
 * @param lastKey key of the last row; left out for a list of limited length, whose next page is found by counting rows
 */
export function pageBody<T>(
  rows: readonly T[],
  { page, perPage, total, rowsBefore = total, tooDeepField, after, hasMore }: PageResult,
  lastKey?: RowKey,
): { data: T[]; pagination: Static<typeof PaginationSchema> } {
  requireReachable({ tooDeepField, rowsBefore: hasMore ? 0 : rowsBefore }, total)
  const seen = rowsBefore + rows.length
  // After a cursor with a key, `rowsBefore` is the count from when the cursor was issued, and rows may have left the
  // list since then. So the count cannot show the end of the list, and any full page may have a successor.
  const mayHaveNext = rows.length > 0 && (after === undefined ? seen < total : rows.length === perPage)
  return {
    data: tooDeepField === undefined ? (rows as T[]) : [],
    pagination: {
      page,
      per_page: perPage,
      total,
      total_pages: Math.ceil(total / perPage),
      ...((hasMore ?? mayHaveNext) && { next_cursor: formatCursor(seen, lastKey) }),
    },
  }
}

/** A list that is short enough for one page. */
export const onePageBody = <T>(rows: readonly T[]) =>
  pageBody(rows, { page: 1, perPage: Math.max(rows.length, 1), total: rows.length })

/** `lastKey` of a list ordered by id. */
export const idKey = (rows: readonly { readonly id: number }[]): RowKey | undefined => {
  const last = rows.at(-1)
  return last && [last.id]
}

/** `pageBody` of a list ordered by id, each row as `toWire` converts it. */
export const pageById = <Row extends { readonly id: number }, T>(
  rows: readonly Row[],
  page: PageResult,
  toWire: (row: Row) => T,
) =>
  pageBody(
    rows.map((row) => toWire(row)),
    page,
    idKey(rows),
  )

/** RFC 3339 in UTC with milliseconds: `2026-01-31T09:30:00.000Z`. */
export const isoTime = (ms: number): string => new Date(ms).toISOString()

/** `isoTime`, with null left null. */
export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))

/** `lastKey` of a list ordered by a time and then id. */
export const timeKey = <T extends { readonly id: number }>(
  rows: readonly T[],
  timeOf: (row: T) => number,
): RowKey | undefined => {
  const last = rows.at(-1)
  return last && [timeOf(last), last.id]
}

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name
type FieldOf<Name> = Name extends 'id' ? 'uuid' : Name extends string ? CamelCase<Name> : never

/** A row has times in milliseconds and ids as bytes where the response has texts, and null for what it leaves out. */
type ValueOf<T> = undefined extends T ? StoredAs<Exclude<T, undefined>> | null : StoredAs<T>
type StoredAs<T> = T extends readonly (infer Item)[]
  ? readonly Item[]
  : T | (string extends T ? number | Uint8Array : never)

type RowOf<Wire, Given> = { readonly [Name in Exclude<keyof Wire, keyof Given> as FieldOf<Name>]: ValueOf<Wire[Name]> }

const readFields = perOwner((schema: TObject) =>
  Object.entries(schema.properties).map(([name, { anyOf, ...field }]) => ({
    name,
    rowName: name === 'id' ? 'uuid' : name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    isOptional: !schema.required?.includes(name),
    isTime: ((anyOf?.[0] ?? field) as TSchema)['x-format'] === 'date-time',
  })),
)

/**
 * The fields of a schema: those that are given, and the others from the fields of the row with their names in camel
 * case, `created_at` from `createdAt` and `id` from `uuid`. Times and ids become texts; an optional field is left out
 * where the row has null or no such field.
 */
export function toWire<T extends TObject, Given extends Partial<Static<T>>>(
  schema: T,
  row: RowOf<Static<T>, Given>,
  given: Given,
): Static<T> {
  const values = row as Readonly<Record<string, unknown>>
  return {
    ...Object.fromEntries(
      readFields(schema).flatMap(({ name, rowName, isOptional, isTime }) => {
        const value = values[rowName]
        if (name in given || (isOptional && value == null)) return []
        if (value instanceof Uint8Array) return [[name, formatUuid(value)]]
        return [[name, isTime && typeof value === 'number' ? isoTime(value) : value]]
      }),
    ),
    ...given,
  } as Static<T>
}
