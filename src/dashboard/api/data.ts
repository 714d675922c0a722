/** @module Reads and changes of the API for screens; who is signed in, for what may be shown to nobody, too. */
import {
  keepPreviousData,
  type QueryClient,
  type QueryKey,
  type UseQueryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { createContext } from 'react'
import type { Pagination } from '#client/api.ts'
import { type Pages, TassisError } from '#client/client.ts'
import type { Session } from '#client/operator-api.ts'
import type { Read, read } from './client.ts'

type Options<Body, Data = Body> = Omit<UseQueryOptions<Body, Error, Data>, 'queryKey' | 'queryFn' | 'select'>

const toData = <T>({ data }: { readonly data: T }): T => data

/** Reads what a response has as its data. A response as it is: `useQuery(read.emails.list())`. */
export const useData = <T>(
  { queryKey, queryFn }: Read<PromiseLike<{ readonly data: T }>>,
  options: Options<{ readonly data: T }, T> = {},
) => useQuery({ ...options, queryKey, queryFn, select: toData })

export type PageOptions<Body> = Omit<Options<Body>, 'placeholderData'>

/** Reads a page of a list; the one before stays until it is there. */
export const usePage = <Body>({ queryKey, queryFn }: Read<PromiseLike<Body>>, options: PageOptions<Body> = {}) =>
  useQuery({ ...options, queryKey, queryFn, placeholderData: keepPreviousData })

/** Rows beyond these are not read. */
const MAX_ROWS = 1000

/** Reads all pages of a list, to choose from or to find names by ids. */
export const useAll = <Row>(
  { queryKey, call }: Read<Pages<{ readonly data: readonly Row[] }>>,
  options: Options<readonly Row[]> = {},
) =>
  useQuery({
    ...options,
    queryKey: [...queryKey, 'all'],
    queryFn: async ({ signal }): Promise<readonly Row[]> => {
      const rows: Row[] = []
      for await (const row of call(signal)) if (rows.push(row) >= MAX_ROWS) break
      return rows
    },
  })

export interface PageOf<Row> {
  readonly data: readonly Row[]
  readonly pagination: Pagination
}

type Resource = keyof typeof read
/** What is read again after a change: all of a resource, or what one method of it reads. */
export type Stale = Resource | readonly [Resource, ...(readonly unknown[])]

const toKey = (stale: Stale): QueryKey => (typeof stale === 'string' ? [stale] : stale)

export const readAgain = (queries: QueryClient, ...stale: readonly Stale[]): void => {
  for (const each of stale) void queries.invalidateQueries({ queryKey: toKey(each) })
}

/** Drops what no screen shows of the resources, so that nothing of before a change is ever shown. */
export function forget(queries: QueryClient, ...stale: readonly Stale[]): void {
  for (const each of stale) queries.removeQueries({ queryKey: toKey(each).slice(0, 1), type: 'inactive' })
}

/** A change. What it names is read again, also after an error: it may have changed since it was shown. */
export function useChange<Input = void, Output = unknown>(
  change: (input: Input) => PromiseLike<Output>,
  ...stale: readonly Stale[]
) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (input: Input) => await change(input),
    onSettled: () => readAgain(queries, ...stale),
  })
}

/** A change whose response is the thing as it is now, which `toRead` reads; the rest that it names is read again. */
export function useStore<Input, Body>(
  change: (input: Input) => PromiseLike<Body>,
  toRead: (body: Body) => Read<PromiseLike<Body>>,
  ...stale: readonly Stale[]
) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (input: Input) => await change(input),
    onSuccess: (body) => {
      queries.setQueryData(toRead(body).queryKey, body)
      readAgain(queries, ...stale)
    },
  })
}

/** Whether something does not exist for this account: it was deleted, or belongs to another. */
export const isMissing = (error: unknown): boolean => error instanceof TassisError && error.status === 404

export const SessionContext = createContext<Session | undefined>(undefined)
