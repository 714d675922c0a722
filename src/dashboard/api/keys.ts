/** @module Queries and changes of API keys. */
import type { ApiKeyPatch, ApiKeyRecord, CreatedApiKey, NewApiKey } from '#features/setup/api-keys/model.ts'
import { request, requestData } from './client.ts'
import { useChange, useRecord } from './data.ts'

const KEY = ['api-keys']

export const toKeyPath = (id: string): string => `/v1/api-keys/${encodeURIComponent(id)}`

/** All keys, newest first. @param isAllowed whether the role may see them */
export const useApiKeys = (isAllowed: boolean) => useRecord<ApiKeyRecord[]>(KEY, '/v1/api-keys', { enabled: isAllowed })

export const useCreateApiKey = () =>
  useChange((body: NewApiKey) => requestData<CreatedApiKey>('POST', '/v1/api-keys', { body }), KEY)

export const useChangeApiKey = (id: string) =>
  useChange((body: ApiKeyPatch) => request<void>('PATCH', toKeyPath(id), { body }), KEY)
