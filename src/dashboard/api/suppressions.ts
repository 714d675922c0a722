/** @module Queries and changes of the suppression list. */
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { SuppressionRecord } from '#features/audience/suppressions/model.ts'
import { get, type PageOf, type QueryValues, request } from './client.ts'

const PATH = '/v1/suppressions'
const KEY = ['suppressions']
const PAGE_SIZE = 50

/** @param query filters and cursor */
export const useSuppressions = (query: QueryValues) =>
  useQuery({
    queryKey: [...KEY, 'page', query],
    queryFn: ({ signal }) => get<PageOf<SuppressionRecord>>(PATH, { ...query, per_page: PAGE_SIZE }, signal),
    placeholderData: keepPreviousData,
  })

/** All suppressions of one address. */
export const useSuppressionsOf = (address: string) =>
  useQuery({
    queryKey: [...KEY, 'address', address],
    queryFn: async ({ signal }) =>
      (await get<PageOf<SuppressionRecord>>(PATH, { email: address, per_page: 100 }, signal)).data,
    staleTime: 0,
  })

/** Returns a function that reads the list again. */
export function useRefreshSuppressions(): () => Promise<void> {
  const queries = useQueryClient()
  return () => queries.invalidateQueries({ queryKey: KEY })
}

export function useAddSuppression() {
  const refresh = useRefreshSuppressions()
  return useMutation({
    mutationFn: async (body: { readonly email_address: string; readonly reason: string }) =>
      (await request<{ data: SuppressionRecord }>('POST', PATH, { body })).data,
    onSuccess: refresh,
  })
}

export function useRemoveSuppression() {
  const refresh = useRefreshSuppressions()
  return useMutation({
    mutationFn: (address: string) => request<void>('DELETE', `${PATH}/${encodeURIComponent(address)}`),
    onSettled: refresh,
  })
}

export const EXPORT_URL = `${PATH}/export`
