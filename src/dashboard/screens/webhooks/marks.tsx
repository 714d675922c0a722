/** @module States of webhooks and deliveries, and sentences with times. */
import { Fragment } from 'react'
import type { Webhook, WebhookDeliverySummary } from '#client/api.ts'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { DELIVERY_STATES, type SentencePart, toWebhookState, WEBHOOK_STATES } from './state.ts'

export function WebhookStatus({ webhook }: { readonly webhook: Webhook }) {
  const { word, tone } = WEBHOOK_STATES[toWebhookState(webhook)]
  return <StatusLabel tone={tone}>{word}</StatusLabel>
}

export function DeliveryStatus({ delivery: { status, attempts } }: { readonly delivery: WebhookDeliverySummary }) {
  const state = Object.hasOwn(DELIVERY_STATES, status)
    ? DELIVERY_STATES[status as keyof typeof DELIVERY_STATES]
    : ({ word: status, tone: 'neutral' } as const)
  const isRetried = status === 'pending' && attempts > 0
  return (
    <StatusLabel tone={isRetried ? 'warning' : state.tone}>{isRetried ? 'Failed, is retried' : state.word}</StatusLabel>
  )
}

export const Sentence = ({ parts }: { readonly parts: readonly SentencePart[] }) => (
  <>
    {parts.map((part, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence have no other identity
      <Fragment key={index}>{typeof part === 'string' ? part : <Time iso={part.at} />}</Fragment>
    ))}
  </>
)
