/** @module One webhook: its deliveries, and what can be done with it. */
import { Alert, Group, Stack } from '@mantine/core'
import { useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { WebhookRecord } from '#features/webhooks/webhooks/model.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/action.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'
import { WebhookFrame } from './webhooks/frame.tsx'
import { ReplayDialog } from './webhooks/replay.tsx'
import { SendTest } from './webhooks/send-test.tsx'

export function WebhookScreen() {
  const { id } = useParams({ from: '/webhooks/$id' })
  const { page = 1, ...filters } = useSearch({ from: '/webhooks/$id' })
  return (
    <WebhookFrame id={id} tab="deliveries">
      {(webhook) => (
        <Stack gap="md">
          <Actions webhook={webhook} />
          <Deliveries webhook={webhook} filters={filters} page={page} />
        </Stack>
      )}
    </WebhookFrame>
  )
}

function Actions({ webhook }: { readonly webhook: WebhookRecord }) {
  const [isAsking, setIsAsking] = useState(false)
  const [done, setDone] = useState<string>()
  const roleReason = useAllowed('developer')
  const reason = webhook.is_active ? undefined : 'The webhook is not active; activate it first.'
  return (
    <Stack gap={0}>
      <Group gap="xs" align="flex-start">
        <SendTest id={webhook.id} />
        <ActionButton size="xs" variant="default" reason={roleReason ?? reason} onClick={() => setIsAsking(true)}>
          Replay a range of time
        </ActionButton>
      </Group>
      <div role="status">
        {done !== undefined && (
          <Alert color="green" mt="xs">
            {done}
          </Alert>
        )}
      </div>
      {isAsking && (
        <ReplayDialog
          webhook={webhook}
          onClose={(message) => {
            setIsAsking(false)
            setDone(message)
          }}
        />
      )}
    </Stack>
  )
}
