/** @module One webhook: its deliveries, what can be done with it, and its settings. */
import { Alert, Stack } from '@mantine/core'
import { useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { WebhookRecord } from '#features/webhooks/webhooks/history/model.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/action.tsx'
import { DeleteWebhook } from './webhooks/delete.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'
import { WebhookFrame } from './webhooks/frame.tsx'
import { ReplayDialog } from './webhooks/replay.tsx'
import { WebhookSecret } from './webhooks/secret.tsx'
import { SendTest } from './webhooks/send-test.tsx'
import { WebhookSettings } from './webhooks/settings.tsx'

export function WebhookScreen() {
  const { id } = useParams({ from: '/webhooks/$id' })
  const { tab = 'deliveries', page = 1, ...filters } = useSearch({ from: '/webhooks/$id' })
  return (
    <WebhookFrame id={id} tab={tab}>
      {(webhook) =>
        tab === 'settings' ? (
          <Stack gap="xl">
            <WebhookSecret webhook={webhook} />
            <WebhookSettings webhook={webhook} />
            <DeleteWebhook webhook={webhook} />
          </Stack>
        ) : (
          <Stack gap="md">
            <Actions webhook={webhook} />
            <Deliveries webhook={webhook} filters={filters} page={page} />
          </Stack>
        )
      }
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
      <SendTest
        id={webhook.id}
        extra={
          <ActionButton size="xs" variant="default" reason={roleReason ?? reason} onClick={() => setIsAsking(true)}>
            Replay a range of time
          </ActionButton>
        }
      />
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
