/** @module Queries and changes of the suppression list. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { SuppressionRecord } from '#features/audience/suppressions/model.ts'
import { type QueryValues, request, requestData } from './client.ts'
import { usePage, useRecord } from './read.ts'

const PATH = '/v1/suppressions'
const KEY = ['suppressions']
const PAGE_SIZE = 50

/** @param query filters and cursor */
export const useSuppressions = (query: QueryValues) =>
  usePage<SuppressionRecord>([...KEY, 'page', query], PATH, { ...query, per_page: PAGE_SIZE })

/** All suppressions of one address. */
export const useSuppressionsOf = (address: string) =>
  useRecord<readonly SuppressionRecord[]>([...KEY, 'address', address], PATH, {
    query: { email: address, per_page: 100 },
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
    mutationFn: (body: { readonly email_address: string; readonly reason: string }) =>
      requestData<SuppressionRecord>('POST', PATH, { body }),
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
