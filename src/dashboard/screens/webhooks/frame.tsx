/** @module What both tabs of a webhook share: its name, its state with the reason, what to do, the way between them. */
import { Group, Stack, Tabs, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Webhook } from '#client/api.ts'
import { TextLink } from '../../parts/links.tsx'
import { Page, QueryView, useEscape } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { WebhookStatus } from './marks.tsx'
import { WebhookNotice } from './notice.tsx'
import { useWebhook } from './queries.ts'
import { findLastAttempt, toWebhookName } from './state.ts'

interface WebhookFrameProps {
  readonly id: string
  readonly tab: 'deliveries' | 'settings'
  readonly children: (webhook: Webhook) => ReactNode
}

export function WebhookFrame({ id, tab, children }: WebhookFrameProps) {
  const query = useWebhook(id)
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/webhooks' }))
  return (
    <Page title={query.data ? toWebhookName(query.data) : 'Webhook'}>
      <nav aria-label="Path">
        <TextLink to="/webhooks">All webhooks</TextLink>
      </nav>
      <QueryView query={query}>
        {(webhook) => (
          <Stack gap="lg">
            <Summary webhook={webhook} />
            <WebhookNotice webhook={webhook} />
            <Tabs
              value={tab}
              onChange={(next) =>
                navigate({ to: `/webhooks/${id}`, search: (next === 'settings' ? { tab: 'settings' } : {}) as never })
              }
            >
              <Tabs.List aria-label="Pages of the webhook">
                <Tabs.Tab value="deliveries">Deliveries</Tabs.Tab>
                <Tabs.Tab value="settings">Settings</Tabs.Tab>
              </Tabs.List>
              <Tabs.Panel value={tab} pt="md">
                {children(webhook)}
              </Tabs.Panel>
            </Tabs>
          </Stack>
        )}
      </QueryView>
    </Page>
  )
}

function Summary({ webhook }: { readonly webhook: Webhook }) {
  const last = findLastAttempt(webhook)
  return (
    <Stack gap={4}>
      <Group gap="lg">
        <WebhookStatus webhook={webhook} />
        <Text size="sm">
          {last ? (
            <>
              Last delivery {last.isAccepted ? 'accepted' : 'failed'} <Time iso={last.at} />
            </>
          ) : (
            'Nothing was delivered yet'
          )}
        </Text>
        <Text size="sm">{webhook.events.length === 1 ? '1 event' : `${webhook.events.length} events`}</Text>
      </Group>
      <Text size="sm">
        <bdi>{webhook.url}</bdi>
      </Text>
    </Stack>
  )
}
