/** @module Reads and changes of the settings. */
import { keepPreviousData, type UseQueryResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { AccountRecord } from '#features/core/accounts/model.ts'
import { get, type QueryValues } from '../../api/client.ts'
import { UNLIMITED } from '../../parts/format.ts'

/** Lists that are read again together begin with the same names. */
type Key = readonly [area: string, ...rest: readonly unknown[]]

/** @param key names what is read, for `useChange` */
export const useRead = <T>(
  key: Key,
  path: string,
  query: QueryValues = {},
  { isEnabled = true }: { readonly isEnabled?: boolean } = {},
): UseQueryResult<T> =>
  useQuery({
    enabled: isEnabled,
    queryKey: [...key, query],
    queryFn: ({ signal }) => get<T>(path, query, signal),
    placeholderData: keepPreviousData,
  })

/** A change. What the keys name is read again, also after an error: it may have changed since it was shown. */
export function useChange<Input, Output = unknown>(change: (input: Input) => Promise<Output>, ...keys: readonly Key[]) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSettled: () => {
      for (const queryKey of keys) void queries.invalidateQueries({ queryKey })
    },
  })
}

export const ACCOUNT_KEY = ['account'] as const

export const useAccount = (): UseQueryResult<{ readonly data: AccountRecord }> => useRead(ACCOUNT_KEY, '/v1/account')

/** A limit of a plan in words. */
export const formatLimit = (limit: number): string => (limit >= UNLIMITED ? 'Unlimited' : limit.toLocaleString())

export const isLimited = (limit: number): boolean => limit < UNLIMITED

/** Leaves the dashboard. Only web pages are opened: the URL comes from another host. */
export function openProviderPage(url: string): void {
  const { protocol } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error('The payment provider returned no web page.')
  location.assign(url)
}
