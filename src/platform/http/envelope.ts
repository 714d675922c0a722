/** @module The two envelopes of the API, and how times look on the wire. */

import type { RowKey } from '../db/row-window.ts'
import { formatCursor } from './cursor.ts'
import { type Page, requireReachable } from './schemas.ts'

export interface Pagination {
  page: number
  per_page: number
  total: number
  total_pages: number
  next_cursor?: string
}

/** `{data}`. */
export const dataBody = <T>(data: T): { data: T } => ({ data })

/** A page as `pageOf` gives it; a list that has one page only says no more than how long it is. */
export type PageResult = Pick<Page, 'page' | 'perPage'> &
  Partial<Pick<Page, 'rowsBefore' | 'tooDeepBy' | 'after'>> & {
    readonly total: number
    /** Of a list whose total is not counted to its end: whether rows follow. */
    readonly hasMore?: boolean
  }

/**
 * `{data, pagination}`. A page past the end has empty `data`; `total_pages` of nothing is 0. Throws the 422 of a page that only a cursor reaches.
 * @param lastKey where the last row stands; left out for a list of bounded length, whose next page is found by counting
 */
export function pageBody<T>(
  rows: readonly T[],
  { page, perPage, total, rowsBefore = total, tooDeepBy, after, hasMore }: PageResult,
  lastKey?: RowKey,
): { data: T[]; pagination: Pagination } {
  requireReachable({ tooDeepBy, rowsBefore: hasMore ? 0 : rowsBefore }, total)
  const seen = rowsBefore + rows.length
  // `rowsBefore` of a key is as old as its cursor, and rows may have left the list since: a full page may have another behind it.
  const mayHaveNext = rows.length > 0 && (after === undefined ? seen < total : rows.length === perPage)
  return {
    data: tooDeepBy === undefined ? (rows as T[]) : [],
    pagination: {
      page,
      per_page: perPage,
      total,
      total_pages: Math.ceil(total / perPage),
      ...((hasMore ?? mayHaveNext) && { next_cursor: formatCursor(seen, lastKey) }),
    },
  }
}

/** `lastKey` of a list that is ordered by id. */
export const idKey = (rows: readonly { readonly id: number }[]): RowKey | undefined => {
  const last = rows.at(-1)
  return last && [last.id]
}

/** RFC 3339 in UTC with milliseconds: `2026-01-31T09:30:00.000Z`. */
export const isoTime = (ms: number): string => new Date(ms).toISOString()

/** `isoTime`, with null left null. */
export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))

/** The same of one that is ordered by a time, and within it by id. */
export const timeKey = <T extends { readonly id: number }>(
  rows: readonly T[],
  timeOf: (row: T) => number,
): RowKey | undefined => {
  const last = rows.at(-1)
  return last && [timeOf(last), last.id]
}
