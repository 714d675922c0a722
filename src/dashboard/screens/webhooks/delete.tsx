/** @module Deletes a webhook, after asking. */
import { List, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { WebhookRecord } from '#features/webhooks/webhooks/history/model.ts'
import { useAllowed } from '../../api/session.tsx'
import { useDeleteWebhook } from '../../api/webhooks.ts'
import { DeleteButton } from '../../parts/dialog.tsx'
import { Section } from '../../parts/section.tsx'

export function DeleteWebhook({ webhook }: { readonly webhook: WebhookRecord }) {
  const remove = useDeleteWebhook(webhook.id)
  const navigate = useNavigate()
  const reason = useAllowed('developer')
  return (
    <Section title="Delete" size="h3" align="flex-start">
      <Text maw={720}>
        Nothing more is posted, and the deliveries and the secret are deleted. To pause it, switch it off.
      </Text>
      <DeleteButton
        label="Delete this webhook"
        reason={reason}
        title="Delete this webhook?"
        confirm="Delete"
        work={remove}
        typed={new URL(webhook.url).hostname}
        onConfirm={() => remove.mutate(undefined, { onSuccess: () => navigate({ to: '/webhooks' }) })}
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
}
