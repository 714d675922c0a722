/** @module Reads and changes of `/v1` for screens. */
import {
  keepPreviousData,
  type QueryClient,
  type QueryKey,
  type UseQueryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { ApiError, get, type PageOf, type QueryValues } from './client.ts'

type Options<T> = Omit<UseQueryOptions<T>, 'queryKey' | 'queryFn'>

interface RecordOptions<T> extends Options<T> {
  readonly query?: QueryValues
}

/** Reads what a response has as its data. */
export const useRecord = <T>(queryKey: QueryKey, path: string, { query = {}, ...options }: RecordOptions<T> = {}) =>
  useQuery({ ...options, queryKey, queryFn: async ({ signal }) => (await get<{ data: T }>(path, query, signal)).data })

const PAGE_SIZE = 50

/** Reads a page of a list; the one before stays until it is there. @param queryKey of all its pages */
export const usePage = <Row>(
  queryKey: QueryKey,
  path: string,
  query: QueryValues,
  options: Omit<Options<PageOf<Row>>, 'placeholderData'> = {},
) =>
  useQuery({
    ...options,
    queryKey: [...queryKey, query],
    queryFn: ({ signal }) => get<PageOf<Row>>(path, { per_page: PAGE_SIZE, ...query }, signal),
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

const readAgain = (queries: QueryClient, keys: readonly QueryKey[]): void => {
  for (const queryKey of keys) void queries.invalidateQueries({ queryKey })
}

/** A change. What the keys name is read again, also after an error: it may have changed since it was shown. */
export function useChange<Input = void, Output = unknown>(
  change: (input: Input) => Promise<Output>,
  ...keys: readonly QueryKey[]
) {
  const queries = useQueryClient()
  return useMutation({ mutationFn: change, onSettled: () => readAgain(queries, keys) })
}

/** A change whose response is the thing as it is now, which `toKey` names; the lists are read again. */
export function useStore<Input, Stored>(
  change: (input: Input) => Promise<Stored>,
  toKey: (stored: Stored) => QueryKey,
  ...lists: readonly QueryKey[]
) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: (stored) => {
      queries.setQueryData(toKey(stored), stored)
      readAgain(queries, lists)
    },
  })
}

/** Whether something does not exist for this account: it was deleted, or belongs to another. */
export const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404
