/**
 * @module States of webhooks and deliveries, and what is read of them. A delivery has no event, so it is read again from
 * time to time.
 */
import type { Webhook, WebhookDeliverySummary } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { DELIVERY_STATES, findLastAttempt, toWebhookState, WEBHOOK_STATES } from './state.ts'

export const WebhookStatus = ({ webhook }: { readonly webhook: Webhook }) => (
  <StateLabel state={WEBHOOK_STATES[toWebhookState(webhook)]} />
)

/** "Accepted 3:04 PM". */
export function LastAttempt({ webhook }: { readonly webhook: Webhook }) {
  const last = findLastAttempt(webhook)
  if (!last) return <>None yet</>
  return <Time before={last.isAccepted ? 'Accepted ' : 'Failed '} iso={last.at} />
}

export function DeliveryStatus({ delivery: { status, attempts, next_attempt_at: next } }: DeliveryProps) {
  const state = Object.hasOwn(DELIVERY_STATES, status)
    ? DELIVERY_STATES[status as keyof typeof DELIVERY_STATES]
    : ({ word: status, tone: 'neutral' } as const)
  if (status !== 'pending' || attempts === 0) return <StateLabel state={state} />
  return (
    <StatusLabel tone="warning" title="The last attempt failed; it is repeated.">
      {next === null ? 'Retrying' : <Time before="Retry " iso={next} />}
    </StatusLabel>
  )
}

interface DeliveryProps {
  readonly delivery: WebhookDeliverySummary
}

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
