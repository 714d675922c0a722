/** @module One webhook: its deliveries, what can be done with it, and its settings. */
import { List, Stack, Text } from '@mantine/core'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { Webhook } from '#client/api.ts'
import { api } from '../api/client.ts'
import { DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { formatCount } from '../parts/format.ts'
import { RecordPage, Section } from '../parts/page.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'
import { LastAttempt, WebhookStatus } from './webhooks/marks.tsx'
import { WebhookNotice } from './webhooks/notice.tsx'
import { useWebhook } from './webhooks/queries.ts'
import { WebhookReplay } from './webhooks/replay.tsx'
import { WebhookSecret } from './webhooks/secret.tsx'
import { useTestEvent } from './webhooks/send-test.tsx'
import { WebhookSettings } from './webhooks/settings.tsx'
import { toWebhookName } from './webhooks/state.ts'

export default function WebhookScreen() {
  const { id } = useParams({ from: '/webhooks/$id' })
  const { tab = 'deliveries' } = useSearch({ from: '/webhooks/$id' })
  const navigate = useNavigate()
  const query = useWebhook(id)
  const test = useTestEvent(id)
  const known = query.data
  return (
    <RecordPage
      title={known ? toWebhookName(known) : 'Webhook'}
      list={{ to: '/webhooks' }}
      listName="Webhooks"
      query={query}
      {...(known && {
        status: <WebhookStatus webhook={known} />,
        description: <Summary webhook={known} />,
        action: (
          <>
            <Replay webhook={known} />
            {test.button}
          </>
        ),
      })}
    >
      {(webhook) => (
        <>
          {test.outcome}
          <WebhookNotice webhook={webhook} />
          <Tabs
            label="Pages of the webhook"
            value={tab}
            onChange={(next) =>
              void navigate({ to: '/webhooks/$id', params: { id }, search: next === 'settings' ? { tab: next } : {} })
            }
            tabs={[
              { name: 'deliveries', label: 'Deliveries', panel: <Deliveries webhook={webhook} /> },
              { name: 'settings', label: 'Settings', panel: <Settings webhook={webhook} /> },
            ]}
          />
        </>
      )}
    </RecordPage>
  )
}

interface WebhookProps {
  readonly webhook: Webhook
}

/** The URL only if it is not the name. */
const Summary = ({ webhook }: WebhookProps) => (
  <>
    {webhook.description !== null && (
      <>
        <bdi>{webhook.url}</bdi>
        <br />
      </>
    )}
    {formatCount(webhook.events.length, 'event')} · Last delivery: <LastAttempt webhook={webhook} />
  </>
)

const Replay = ({ webhook }: WebhookProps) => (
  <DialogButton
    label="Replay a range of time"
    variant="default"
    needs="developer"
    reason={webhook.is_active ? undefined : 'The webhook is not active; activate it first.'}
  >
    {(close) => <WebhookReplay webhook={webhook} onClose={close} />}
  </DialogButton>
)

const Settings = ({ webhook }: WebhookProps) => (
  <Stack gap="xl">
    <WebhookSettings webhook={webhook} />
    <WebhookSecret webhook={webhook} />
    <DeleteWebhook webhook={webhook} />
  </Stack>
)

const DeleteWebhook = ({ webhook }: WebhookProps) => (
  <Section title="Delete" description="Nothing more is posted; deliveries and secret are gone. Off only pauses it.">
    <DeleteButton
      label="Delete this webhook"
      noun="webhook"
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
