/** @module Queries and changes of webhooks and their deliveries. */
import { keepPreviousData, type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type {
  CreatedWebhook,
  DeliveryDetail,
  DeliveryRecord,
  ReplayResult,
  SecretResult,
  TestResult,
  WebhookRecord,
} from '#features/webhooks/webhooks/history/model.ts'
import type { PayloadFormat } from '#features/webhooks/webhooks/payload/payload-format.ts'
import { usePasswordAgain } from '../parts/password-again.tsx'
import { get, type PageOf, request, requestData } from './client.ts'
import { useRecord } from './read.ts'

export const PAGE_SIZE = 50
const LIST_REFRESH_MS = 15_000
/** Counting reads many events. */
const COUNT_STALE_MS = 30_000
/** How often a delivery whose attempt is due is read again. */
const DUE_REFRESH_MS = 1500

const toPath = (id: string, action = ''): string => `/v1/webhooks/${encodeURIComponent(id)}${action}`
export const webhookKey = (id: string) => ['webhooks', 'one', id]
export const deliveriesKey = (id: string) => ['webhooks', 'deliveries', id]
const deliveryKey = (id: string, deliveryId: string) => ['webhooks', 'delivery', id, deliveryId]

export const useWebhooks = (page: number) =>
  useQuery({
    queryKey: ['webhooks', 'list', page],
    queryFn: ({ signal }) => get<PageOf<WebhookRecord>>('/v1/webhooks', { page, per_page: PAGE_SIZE }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: LIST_REFRESH_MS,
  })

export const useWebhook = (id: string) =>
  useRecord<WebhookRecord>(webhookKey(id), toPath(id), { refetchInterval: LIST_REFRESH_MS })

export const readDeliveries = (
  id: string,
  query: Readonly<Record<string, string | number | undefined>>,
  signal?: AbortSignal,
): Promise<PageOf<DeliveryRecord>> =>
  get<PageOf<DeliveryRecord>>(toPath(id, '/deliveries'), { ...query, per_page: query['per_page'] ?? PAGE_SIZE }, signal)

/** Whether its attempt is made about now. */
export const isDue = ({ next_attempt_at: at }: Pick<DeliveryRecord, 'next_attempt_at'>): boolean =>
  at !== null && new Date(at).getTime() < Date.now() + DUE_REFRESH_MS

/** A delivery with its request; read again while its attempt is due. */
export const useDelivery = (id: string, deliveryId: string) =>
  useRecord<DeliveryDetail>(deliveryKey(id, deliveryId), toPath(id, `/deliveries/${encodeURIComponent(deliveryId)}`), {
    refetchInterval: ({ state: { data } }) => {
      if (data?.next_attempt_at === null) return false
      return data && isDue(data) ? DUE_REFRESH_MS : LIST_REFRESH_MS
    },
  })

/** Everything of a webhook is read again: its state, its deliveries, the list. */
const refresh = (queries: QueryClient): Promise<void> => queries.invalidateQueries({ queryKey: ['webhooks'] })

export interface WebhookInput {
  readonly url: string
  readonly events: readonly string[]
  readonly description: string
  readonly format: PayloadFormat
}

export function useCreateWebhook() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (input: WebhookInput) => requestData<CreatedWebhook>('POST', '/v1/webhooks', { body: input }),
    onSuccess: () => void refresh(queries),
  })
}

/** A change of a webhook; `updated_at` is the version that the user saw, undefined: any. */
export interface WebhookChange extends WebhookInput {
  readonly is_active: boolean
  readonly updated_at?: string
}

export function useChangeWebhook(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (change: WebhookChange) => requestData<WebhookRecord>('PUT', toPath(id), { body: change }),
    onSuccess: (webhook) => queries.setQueryData(webhookKey(id), webhook),
    onSettled: () => void refresh(queries),
  })
}

export function useDeleteWebhook(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => request<void>('DELETE', toPath(id)),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['webhooks', 'list'] }),
  })
}

export function useTestWebhook(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => requestData<TestResult>('POST', toPath(id, '/test')),
    onSuccess: () => void refresh(queries),
  })
}

export function useReplayDelivery(id: string, deliveryId: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () =>
      requestData<DeliveryRecord>('POST', toPath(id, `/deliveries/${encodeURIComponent(deliveryId)}/replay`)),
    onSuccess: () => void refresh(queries),
  })
}

/** A range of `POST /v1/webhooks/{id}/replay`. */
export interface ReplayInput {
  readonly from?: string
  readonly to?: string
  readonly from_seq?: number
  readonly to_seq?: number
  readonly events?: readonly string[]
  /** Only what was not delivered. */
  readonly undelivered?: boolean
}

/** Counts what a replay would send again; undefined: the range is not complete. */
export const useReplayCount = (id: string, range: ReplayInput | undefined) =>
  useQuery({
    queryKey: ['webhooks', 'replay-count', id, range],
    queryFn: ({ signal }) => requestData<ReplayResult>('POST', toPath(id, '/replay/count'), { body: range, signal }),
    enabled: range !== undefined,
    staleTime: COUNT_STALE_MS,
  })

export const replay = (id: string, range: ReplayInput): Promise<ReplayResult> =>
  requestData<ReplayResult>('POST', toPath(id, '/replay'), { body: range })

export function useReplay(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (range: ReplayInput) => replay(id, range),
    onSettled: () => void refresh(queries),
  })
}

export function useRevealSecret(id: string) {
  const withPassword = usePasswordAgain()
  return useMutation({
    mutationFn: () =>
      withPassword(async () => (await requestData<SecretResult>('POST', toPath(id, '/secret/reveal'))).secret),
  })
}

/** Replaces the secret of the version that the user saw. */
export function useRotateSecret(id: string) {
  const queries = useQueryClient()
  const withPassword = usePasswordAgain()
  return useMutation({
    mutationFn: (seen: string) =>
      withPassword(
        async () =>
          (await requestData<SecretResult>('POST', toPath(id, '/secret/rotate'), { body: { updated_at: seen } }))
            .secret,
      ),
    onSettled: () => void refresh(queries),
  })
}
