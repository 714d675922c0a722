/** @module One webhook: its deliveries, what can be done with it, and its settings. */
import { List, Stack, Text } from '@mantine/core'
import { useParams, useSearch } from '@tanstack/react-router'
import type { Webhook } from '#client/api.ts'
import { api } from '../api/client.ts'
import { DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { Section } from '../parts/page.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'
import { WebhookFrame } from './webhooks/frame.tsx'
import { WebhookReplay } from './webhooks/replay.tsx'
import { WebhookSecret } from './webhooks/secret.tsx'
import { SendTest } from './webhooks/send-test.tsx'
import { WebhookSettings } from './webhooks/settings.tsx'

const DeleteWebhook = ({ webhook }: { readonly webhook: Webhook }) => (
  <Section title="Delete">
    <Text maw={720}>
      Nothing more is posted, and the deliveries and the secret are deleted. To pause it, switch it off.
    </Text>
    <DeleteButton
      label="Delete this webhook"
      title="Delete this webhook?"
      confirm="Delete"
      typed={new URL(webhook.url).hostname}
      remove={() => api.webhooks.delete(webhook.id)}
      refreshes={[['webhooks', 'list']]}
      leadsTo={{ to: '/webhooks' }}
    >
      <Text>
        <bdi>{webhook.url}</bdi>
      </Text>
      <List size="sm">
        <List.Item>Events that are still to be sent are not sent.</List.Item>
        <List.Item>Its history is deleted. This cannot be undone.</List.Item>
        <List.Item>A new webhook with the same URL gets a new secret.</List.Item>
      </List>
    </DeleteButton>
  </Section>
)

export default function WebhookScreen() {
  const { id } = useParams({ from: '/webhooks/$id' })
  const { tab = 'deliveries' } = useSearch({ from: '/webhooks/$id' })
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
            <Deliveries webhook={webhook} />
          </Stack>
        )
      }
    </WebhookFrame>
  )
}

const Actions = ({ webhook }: { readonly webhook: Webhook }) => (
  <SendTest
    id={webhook.id}
    extra={
      <DialogButton
        label="Replay a range of time"
        size="xs"
        variant="default"
        needs="developer"
        reason={webhook.is_active ? undefined : 'The webhook is not active; activate it first.'}
      >
        {(close) => <WebhookReplay webhook={webhook} onClose={close} />}
      </DialogButton>
    }
  />
)
