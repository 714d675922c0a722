/** @module Which rows of a list are asked for: by `limit` and `offset`, or by `page` and `per_page` as in every other list. */
import type { Static } from '@sinclair/typebox'
import { Type } from '@sinclair/typebox'
import { PAGE_FIELDS, pageOf, QueryInteger, queryInteger } from './schemas.ts'
import { invalidFields } from './validation.ts'

const DEFAULT_LIMIT = 25
const MOST_ROWS = 100
const MOST_OFFSET = 1_000_000_000

/** Spread into a query schema. */
export const SLICE_FIELDS = {
  limit: QueryInteger({ minimum: 1, maximum: MOST_ROWS, default: DEFAULT_LIMIT, description: 'Rows of the answer.' }),
  offset: QueryInteger({ minimum: 0, default: 0, description: 'Rows before the first one of the answer.' }),
  page: { ...PAGE_FIELDS.page, description: 'Number of the page, from 1, in place of offset.' },
  per_page: { ...PAGE_FIELDS.per_page, description: 'Rows on a page, in place of limit.' },
}

export const SliceQuery = Type.Object(SLICE_FIELDS)

export interface Slice {
  readonly limit: number
  readonly offset: number
  /** For the envelope: the page that the first row is on. */
  readonly page: number
  readonly perPage: number
}

/** Reads which rows are asked for; 422 when it is no whole number, out of range, or said in both ways. */
export function sliceOf(query: Static<typeof SliceQuery>): Slice {
  if (query.limit === undefined && query.offset === undefined) {
    const page = pageOf(query)
    return { ...page, limit: page.perPage }
  }
  for (const field of ['page', 'per_page'] as const)
    if (query[field] !== undefined)
      throw invalidFields([{ field, message: 'cannot be given together with limit or offset' }])
  const limit = queryInteger('limit', query.limit, { fallback: DEFAULT_LIMIT, minimum: 1, maximum: MOST_ROWS })
  const offset = queryInteger('offset', query.offset, { fallback: 0, minimum: 0, maximum: MOST_OFFSET })
  return { limit, offset, page: Math.floor(offset / limit) + 1, perPage: limit }
}
