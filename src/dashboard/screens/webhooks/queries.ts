/** @module What is read of webhooks and their deliveries. A delivery has no event, so it is read again from time to time. */
import type { WebhookDeliverySummary } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'

export const REFRESH_MS = 15_000
/** How often a delivery whose attempt is due is read again. */
const DUE_REFRESH_MS = 1500

export const useWebhook = (id: string) => useData(read.webhooks.get(id), { refetchInterval: REFRESH_MS })

/** How often a list of deliveries is read again. */
export const toRefreshMs = ({ state: { data } }: Shown<readonly WebhookDeliverySummary[]>): number =>
  data?.data.some(isDue) ? DUE_REFRESH_MS : REFRESH_MS

interface Shown<Data> {
  readonly state: { readonly data: { readonly data: Data } | undefined }
}

const isDue = ({ next_attempt_at: at }: Pick<WebhookDeliverySummary, 'next_attempt_at'>): boolean =>
  at !== null && new Date(at).getTime() < Date.now() + DUE_REFRESH_MS

export const useDelivery = (id: string, deliveryId: string) =>
  useData(read.webhooks.getDelivery(id, deliveryId), {
    refetchInterval: ({ state: { data } }) => {
      if (data?.data.next_attempt_at === null) return false
      return data && isDue(data.data) ? DUE_REFRESH_MS : REFRESH_MS
    },
  })
