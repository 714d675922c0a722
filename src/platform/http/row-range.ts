/**
 * @module Parses the requested rows of a list: by `limit` and `offset`, or by `page` and `per_page` as in all other
 * lists.
 */
import type { Static } from '@sinclair/typebox'
import { Type } from '@sinclair/typebox'
import {
  PAGE_FIELDS,
  type Page,
  parsePage,
  parsePageAfter,
  parseQueryInteger,
  QueryInteger,
  refuseTogether,
  toOffset,
} from './schemas.ts'

const DEFAULT_LIMIT = 25
const MAX_ROWS = 100
const MAX_ROWS_BEFORE = 1_000_000_000

/** Fields to spread into a query schema. */
export const ROW_RANGE_FIELDS = {
  limit: QueryInteger({
    minimum: 1,
    maximum: MAX_ROWS,
    default: DEFAULT_LIMIT,
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
  const limit = parseQueryInteger('limit', query.limit, { fallback: DEFAULT_LIMIT, minimum: 1, maximum: MAX_ROWS })
  if (query.cursor !== undefined) {
    refuseTogether('cursor', query, ['offset'])
    return parsePageAfter(query.cursor, limit)
  }
  const given = parseQueryInteger('offset', query.offset, { fallback: 0, minimum: 0, maximum: MAX_ROWS_BEFORE })
  return { limit, page: Math.floor(given / limit) + 1, perPage: limit, ...toOffset('offset', given) }
}
