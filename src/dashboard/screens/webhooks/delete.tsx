/** @module Deletes a webhook, after asking. */
import { List, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { WebhookRecord } from '#features/webhooks/webhooks/model.ts'
import { useAllowed } from '../../api/session.tsx'
import { useDeleteWebhook } from '../../api/webhooks.ts'
import { ActionButton } from '../../parts/action.tsx'
import { DialogFrame } from '../../parts/dialog.tsx'
import { Section } from '../../parts/section.tsx'

export function DeleteWebhook({ webhook }: { readonly webhook: WebhookRecord }) {
  const [isAsking, setIsAsking] = useState(false)
  const remove = useDeleteWebhook(webhook.id)
  const navigate = useNavigate()
  const reason = useAllowed('developer')
  return (
    <Section title="Delete" size="h3" align="flex-start">
      <Text maw={720}>
        Nothing more is posted, and the deliveries and the secret are deleted. To pause it, switch it off.
      </Text>
      <ActionButton reason={reason} variant="default" onClick={() => setIsAsking(true)}>
        Delete this webhook
      </ActionButton>
      {isAsking && (
        <DialogFrame
          title="Delete this webhook?"
          confirm="Delete"
          isDangerous
          work={remove}
          typed={new URL(webhook.url).hostname}
          onConfirm={() => remove.mutate(undefined, { onSuccess: () => navigate({ to: '/webhooks' }) })}
          onClose={() => setIsAsking(false)}
        >
          <Text>
            <bdi>{webhook.url}</bdi>
          </Text>
          <List size="sm">
            <List.Item>Events that are still to be sent are not sent.</List.Item>
            <List.Item>Its history is deleted. This cannot be undone.</List.Item>
            <List.Item>A new webhook with the same URL gets a new secret.</List.Item>
          </List>
        </DialogFrame>
      )}
    </Section>
  )
}
