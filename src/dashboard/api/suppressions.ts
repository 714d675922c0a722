/** @module Queries and changes of the suppression list. */
import { useQueryClient } from '@tanstack/react-query'
import type { SuppressionRecord } from '#features/audience/suppressions/model.ts'
import { type QueryValues, request, requestData } from './client.ts'
import { useChange, usePage, useRecord } from './data.ts'

const PATH = '/v1/suppressions'
const KEY = ['suppressions']

/** @param query filters and cursor */
export const useSuppressions = (query: QueryValues) => usePage<SuppressionRecord>([...KEY, 'page'], PATH, query)

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

export const useAddSuppression = () =>
  useChange(
    (body: { readonly email_address: string; readonly reason: string }) =>
      requestData<SuppressionRecord>('POST', PATH, { body }),
    KEY,
  )

export const useRemoveSuppression = () =>
  useChange((address: string) => request<void>('DELETE', `${PATH}/${encodeURIComponent(address)}`), KEY)

export const EXPORT_URL = `${PATH}/export`
