/** @module One webhook: its deliveries, what can be done with it, and its settings. */
import { List, Stack, Text } from '@mantine/core'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { UpdateWebhookRequest, Webhook } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { formatCount } from '../parts/format.ts'
import { Notice } from '../parts/notice.tsx'
import { RecordPage, Section } from '../parts/page.tsx'
import { ReplayDialog, type ReplayRange } from '../parts/replay-dialog.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'
import { WEBHOOK_FIELDS } from './webhooks/fields.tsx'
import { LastAttempt, WebhookStatus } from './webhooks/marks.tsx'
import { WebhookNotice } from './webhooks/notice.tsx'
import { useWebhook } from './webhooks/queries.ts'
import { WebhookSecret } from './webhooks/secret.tsx'
import { useTestEvent } from './webhooks/send-test.tsx'
import { toMissedStart, toWebhookName, toWebhookState } from './webhooks/state.ts'

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
    {(close) => (
      <ReplayDialog
        title="Replay a range of time"
        noun="event"
        undelivered={{
          label: 'Only events that were not delivered',
          hint: 'Without those that are still retried. Otherwise your server gets again what it has accepted.',
        }}
        event={{ label: 'Event', options: [{ value: '', label: 'All of this webhook' }, ...webhook.events] }}
        // Since when it may have missed events, if it fails; else a day ago.
        from={toMissedStart(webhook) ?? new Date(Date.now() - DEFAULT_RANGE_MS).toISOString()}
        count={(range) => read.webhooks.countReplay(webhook.id, toRequest(range))}
        refreshes={['webhooks']}
        run={(range) => api.webhooks.replay(webhook.id, toRequest(range))}
        onClose={close}
      >
        <Text size="sm">
          The events of this time that the webhook subscribes to are posted again, each as a new delivery.
        </Text>
      </ReplayDialog>
    )}
  </DialogButton>
)

const DEFAULT_RANGE_MS = 24 * 60 * 60 * 1000

const toRequest = ({ event, ...range }: ReplayRange) => ({ ...range, ...(event && { events: [event] }) })

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

const ACTIVE_FIELD = {
  name: 'is_active',
  label: 'Post events to this webhook',
  kind: 'switch',
  hint: 'Off: events of that time are not sent later, but can be replayed.',
} as const

function WebhookSettings({ webhook }: WebhookProps) {
  const isDeactivated = toWebhookState(webhook) === 'deactivated'
  return (
    <>
      {isDeactivated && <Notice>Saving a change activates this webhook again.</Notice>}
      <FieldForm
        maw={640}
        needs="developer"
        done="The webhook was saved."
        stored={webhook}
        refreshes={['webhooks']}
        run={(changes: Partial<UpdateWebhookRequest>) => {
          const { url, description, events, format, is_active, updated_at } = webhook
          return api.webhooks.update(webhook.id, {
            url,
            description,
            events,
            format,
            is_active,
            updated_at,
            ...changes,
          })
        }}
        fields={isDeactivated ? WEBHOOK_FIELDS : [ACTIVE_FIELD, ...WEBHOOK_FIELDS]}
      />
    </>
  )
}
