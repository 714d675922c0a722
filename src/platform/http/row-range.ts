/** @module Which rows of a list are asked for: by `limit` and `offset`, or by `page` and `per_page` as in every other list. */
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

/** Spread into a query schema. */
export const ROW_RANGE_FIELDS = {
  limit: QueryInteger({ minimum: 1, maximum: MAX_ROWS, default: DEFAULT_LIMIT, description: 'Rows of the answer.' }),
  offset: QueryInteger({ minimum: 0, default: 0, description: 'Rows before the first one of the answer.' }),
  page: { ...PAGE_FIELDS.page, description: 'Number of the page, from 1, in place of offset.' },
  per_page: { ...PAGE_FIELDS.per_page, description: 'Rows on a page, in place of limit.' },
  cursor: PAGE_FIELDS.cursor,
}

export const RowRangeQuery = Type.Object(ROW_RANGE_FIELDS)

/** Reads which rows are asked for; 422 when it is no whole number, out of range, or said in both ways. */
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
