/** @module Reads of `/v1` for screens. */
import { keepPreviousData, type QueryKey, type UseQueryOptions, useQuery } from '@tanstack/react-query'
import { get, type PageOf, type QueryValues } from './client.ts'

interface RecordOptions<T> extends Omit<UseQueryOptions<T>, 'queryKey' | 'queryFn'> {
  readonly query?: QueryValues
}

/** Reads what a response has as its data. */
export const useRecord = <T>(queryKey: QueryKey, path: string, { query = {}, ...options }: RecordOptions<T> = {}) =>
  useQuery({ ...options, queryKey, queryFn: async ({ signal }) => (await get<{ data: T }>(path, query, signal)).data })

/** Reads a page of a list; the one before stays until it is there. */
export const usePage = <Row>(queryKey: QueryKey, path: string, query: QueryValues) =>
  useQuery({
    queryKey,
    queryFn: ({ signal }) => get<PageOf<Row>>(path, query, signal),
    placeholderData: keepPreviousData,
  })

const MAX_PER_PAGE = 100
/** Rows beyond these are not read. */
const MAX_PAGES = 10

/** Reads all pages of a list, to choose from or to find names by ids. */
export const useAll = <Row>(queryKey: QueryKey, path: string, options: { readonly staleTime?: number } = {}) =>
  useQuery({
    ...options,
    queryKey,
    queryFn: async ({ signal }): Promise<readonly Row[]> => {
      const rows: Row[] = []
      for (let page = 1; page <= MAX_PAGES; page++) {
        const { data, pagination } = await get<PageOf<Row>>(path, { page, per_page: MAX_PER_PAGE }, signal)
        rows.push(...data)
        if (page >= pagination.total_pages) break
      }
      return rows
    },
  })
