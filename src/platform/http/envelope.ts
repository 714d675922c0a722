/** @module The two envelopes of the API, and how times look on the wire. */

export interface Pagination {
  page: number
  per_page: number
  total: number
  total_pages: number
}

/** `{data}`. */
export const one = <T>(data: T): { data: T } => ({ data })

/** `{data, pagination}`. A page past the end has empty `data`; `total_pages` of nothing is 0. */
export const list = <T>(
  rows: readonly T[],
  { page, perPage, total }: { readonly page: number; readonly perPage: number; readonly total: number },
): { data: T[]; pagination: Pagination } => ({
  data: rows as T[],
  pagination: { page, per_page: perPage, total, total_pages: Math.ceil(total / perPage) },
})

/** RFC 3339 in UTC with milliseconds: `2026-01-31T09:30:00.000Z`. */
export const isoTime = (ms: number): string => new Date(ms).toISOString()

/** `isoTime`, with null left null. */
export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))
