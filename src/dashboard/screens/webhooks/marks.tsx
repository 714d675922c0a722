/** @module States of webhooks and deliveries. */
import type { Webhook, WebhookDeliverySummary } from '#client/api.ts'
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
