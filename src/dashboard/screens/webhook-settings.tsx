/** @module The settings of a webhook: URL, description, events, whether it is on, its secret, deletion. */
import { Stack } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import { DeleteWebhook } from './webhooks/delete.tsx'
import { WebhookFrame } from './webhooks/frame.tsx'
import { WebhookSecret } from './webhooks/secret.tsx'
import { WebhookSettings } from './webhooks/settings.tsx'

export function WebhookSettingsScreen() {
  const { id } = useParams({ from: '/webhooks/$id/settings' })
  return (
    <WebhookFrame id={id} tab="settings">
      {(webhook) => (
        <Stack gap="xl">
          <WebhookSecret webhook={webhook} />
          <WebhookSettings webhook={webhook} />
          <DeleteWebhook webhook={webhook} />
        </Stack>
      )}
    </WebhookFrame>
  )
}
