/** @module Sends a test event and waits for its outcome. */
import { Alert, Group, Stack, Text } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { WebhookDelivery } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { formatDuration } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { useDelivery } from './queries.ts'

interface SendTestProps {
  readonly id: string
  /** Another button, beside. */
  readonly extra?: ReactNode
}

export function SendTest({ id, extra }: SendTestProps) {
  const [deliveryId, setDeliveryId] = useState<string>()
  const test = useChange(() => api.webhooks.test(id), 'webhooks')
  return (
    <Stack gap="xs" align="flex-start">
      <Group gap="xs">
        <SmallAction
          needs="developer"
          loading={test.isPending}
          onClick={() => test.mutate(undefined, { onSuccess: ({ data }) => setDeliveryId(data.delivery_id) })}
        >
          Send a test event
        </SmallAction>
        {extra}
      </Group>
      <FormError error={test.error} />
      <div role="status">
        {deliveryId !== undefined && <Outcome key={deliveryId} id={id} deliveryId={deliveryId} />}
      </div>
    </Stack>
  )
}

function Outcome({ id, deliveryId }: { readonly id: string; readonly deliveryId: string }) {
  const { data, error } = useDelivery(id, deliveryId)
  if (!data) return error ? <FormError error={error} /> : <Text size="sm">The test event is being sent…</Text>
  return (
    <Alert variant="default" p="xs">
      <Stack gap={4} align="flex-start">
        <StatusLabel tone={data.status === 'delivered' ? 'good' : data.status === 'pending' ? 'waiting' : 'bad'}>
          {toWords(data)}
        </StatusLabel>
        <TextLink to="/webhooks/$id/deliveries/$deliveryId" params={{ id, deliveryId }}>
          See the request and the response
        </TextLink>
      </Stack>
    </Alert>
  )
}

function toWords({ status, status_code: code, duration_ms: ms, error }: WebhookDelivery): string {
  if (status === 'pending') return 'The test event is being sent…'
  if (status === 'delivered') return `Your server accepted the test event with ${code} in ${formatDuration(ms)}.`
  return `The test event failed. ${error ?? ''}`
}
