/** @module Sends a test event and waits for its outcome. */
import { useState } from 'react'
import type { WebhookDelivery } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { ActionButton } from '../../parts/buttons.tsx'
import { FormError } from '../../parts/form.tsx'
import { formatDuration } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { Notice } from '../../parts/status.tsx'
import { useDelivery } from './queries.ts'

/** The button, and what is shown of the outcome. */
export function useTestEvent(id: string) {
  const [deliveryId, setDeliveryId] = useState<string>()
  const test = useChange(() => api.webhooks.test(id), 'webhooks')
  return {
    button: (
      <ActionButton
        needs="developer"
        variant="default"
        loading={test.isPending}
        onClick={() => test.mutate(undefined, { onSuccess: ({ data }) => setDeliveryId(data.delivery_id) })}
      >
        Send a test event
      </ActionButton>
    ),
    outcome: (test.error || deliveryId !== undefined) && (
      <div role="status">
        <FormError error={test.error} />
        {deliveryId !== undefined && <Outcome key={deliveryId} id={id} deliveryId={deliveryId} />}
      </div>
    ),
  }
}

function Outcome({ id, deliveryId }: { readonly id: string; readonly deliveryId: string }) {
  const { data, error } = useDelivery(id, deliveryId)
  if (!data) return error ? <FormError error={error} /> : <Notice tone="waiting">The test event is being sent…</Notice>
  return (
    <Notice
      tone={data.status === 'delivered' ? 'good' : data.status === 'pending' ? 'waiting' : 'bad'}
      action={
        <TextLink to="/webhooks/$id/deliveries/$deliveryId" params={{ id, deliveryId }}>
          See the request and the response
        </TextLink>
      }
    >
      {toWords(data)}
    </Notice>
  )
}

function toWords({ status, status_code: code, duration_ms: ms, error }: WebhookDelivery): string {
  if (status === 'pending') return 'The test event is being sent…'
  if (status === 'delivered') return `Your server accepted the test event with ${code} in ${formatDuration(ms)}.`
  return `The test event failed. ${error ?? ''}`
}
