/** @module Queries and changes of webhooks and their deliveries. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type {
  CreatedWebhook,
  DeliveryDetail,
  DeliveryRecord,
  ReplayResult,
  TestResult,
  WebhookRecord,
} from '#features/webhooks/webhooks/history/model.ts'
import type { PayloadFormat } from '#features/webhooks/webhooks/payload/payload-format.ts'
import { type QueryValues, requestData } from './client.ts'
import { useChange, usePage, useRecord } from './data.ts'

const LIST_REFRESH_MS = 15_000
/** Counting reads many events. */
const COUNT_STALE_MS = 30_000
/** How often a delivery whose attempt is due is read again. */
const DUE_REFRESH_MS = 1500

export const toWebhookPath = (id: string, action = ''): string => `/v1/webhooks/${encodeURIComponent(id)}${action}`
export const webhookKey = (id: string) => ['webhooks', 'one', id]
const deliveryKey = (id: string, deliveryId: string) => ['webhooks', 'delivery', id, deliveryId]

export const useWebhooks = (page: number) =>
  usePage<WebhookRecord>(['webhooks', 'list'], '/v1/webhooks', { page }, { refetchInterval: LIST_REFRESH_MS })

export const useWebhook = (id: string) =>
  useRecord<WebhookRecord>(webhookKey(id), toWebhookPath(id), { refetchInterval: LIST_REFRESH_MS })

/** Read again often while an attempt is due: a delivery causes no event of its own. */
export const useDeliveries = (id: string, query: QueryValues) =>
  usePage<DeliveryRecord>(['webhooks', 'deliveries', id], toWebhookPath(id, '/deliveries'), query, {
    refetchInterval: ({ state: { data } }) => (data?.data.some(isDue) ? DUE_REFRESH_MS : LIST_REFRESH_MS),
  })

/** Whether its attempt is made about now. */
const isDue = ({ next_attempt_at: at }: Pick<DeliveryRecord, 'next_attempt_at'>): boolean =>
  at !== null && new Date(at).getTime() < Date.now() + DUE_REFRESH_MS

/** A delivery with its request; read again while its attempt is due. */
export const useDelivery = (id: string, deliveryId: string) =>
  useRecord<DeliveryDetail>(
    deliveryKey(id, deliveryId),
    toWebhookPath(id, `/deliveries/${encodeURIComponent(deliveryId)}`),
    {
      refetchInterval: ({ state: { data } }) => {
        if (data?.next_attempt_at === null) return false
        return data && isDue(data) ? DUE_REFRESH_MS : LIST_REFRESH_MS
      },
    },
  )

/** Everything of webhooks is read again after a change: their state, their deliveries, the list. */
const KEY = ['webhooks']

export interface WebhookInput {
  readonly url: string
  readonly events: readonly string[]
  readonly description: string
  readonly format: PayloadFormat
}

export const useCreateWebhook = () =>
  useChange((body: WebhookInput) => requestData<CreatedWebhook>('POST', '/v1/webhooks', { body }), KEY)

/** A change of a webhook; `updated_at` is the version that the user saw, undefined: any. */
export interface WebhookChange extends WebhookInput {
  readonly is_active: boolean
  readonly updated_at?: string
}

export function useChangeWebhook(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (change: WebhookChange) => requestData<WebhookRecord>('PUT', toWebhookPath(id), { body: change }),
    onSuccess: (webhook) => queries.setQueryData(webhookKey(id), webhook),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  })
}

export const useTestWebhook = (id: string) =>
  useChange(() => requestData<TestResult>('POST', toWebhookPath(id, '/test')), KEY)

export const useReplayDelivery = (id: string, deliveryId: string) =>
  useChange(
    () =>
      requestData<DeliveryRecord>('POST', toWebhookPath(id, `/deliveries/${encodeURIComponent(deliveryId)}/replay`)),
    KEY,
  )

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
    queryFn: ({ signal }) =>
      requestData<ReplayResult>('POST', toWebhookPath(id, '/replay/count'), { body: range, signal }),
    enabled: range !== undefined,
    staleTime: COUNT_STALE_MS,
  })

export const replay = (id: string, range: ReplayInput): Promise<ReplayResult> =>
  requestData<ReplayResult>('POST', toWebhookPath(id, '/replay'), { body: range })

export const useReplay = (id: string) => useChange((range: ReplayInput) => replay(id, range), KEY)
