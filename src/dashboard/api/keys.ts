/** @module Queries and changes of API keys. */

import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { ApiKeyPatch, ApiKeyRecord, CreatedApiKey, NewApiKey } from '#features/setup/api-keys/model.ts'
import { request, requestData } from './client.ts'
import { useRecord } from './read.ts'

const KEY = ['api-keys']

/** All keys, newest first. @param isAllowed whether the role may see them */
export const useApiKeys = (isAllowed: boolean) => useRecord<ApiKeyRecord[]>(KEY, '/v1/api-keys', { enabled: isAllowed })

export function useCreateApiKey() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (body: NewApiKey) => requestData<CreatedApiKey>('POST', '/v1/api-keys', { body }),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  })
}

export function useChangeApiKey(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (body: ApiKeyPatch) => request<void>('PATCH', `/v1/api-keys/${encodeURIComponent(id)}`, { body }),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  })
}

export function useRevokeApiKey() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (id: string) => request<void>('DELETE', `/v1/api-keys/${encodeURIComponent(id)}`),
    // Also after an error: somebody else may have revoked it.
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  })
}
