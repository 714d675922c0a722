/** @module The list of webhooks; one of them: its deliveries, what can be done with it, its settings; and a new one. */
import { Anchor, Button, Checkbox, Group, List, Stack, Text } from '@mantine/core'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { CreateWebhookResult, UpdateWebhookRequest, Webhook } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { toCurl } from '../parts/commands.ts'
import { DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import type { Field, Input } from '../parts/fields.ts'
import { formatCount } from '../parts/format.ts'
import { NameLink, TextLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { Page, RecordPage, Section } from '../parts/page.tsx'
import { ReplayDialog, type ReplayRange } from '../parts/replay-dialog.tsx'
import { Notice } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'
import { LastAttempt, REFRESH_MS, useWebhook, WebhookStatus } from './webhooks/marks.tsx'
import { useTestEvent, WebhookNotice } from './webhooks/notice.tsx'
import { SecretText, VerifyHint, WebhookSecret } from './webhooks/secret.tsx'
import {
  EVENT_EXPLANATIONS,
  EVENT_GROUPS,
  EVENT_NAMES,
  toMissedStart,
  toWebhookName,
  toWebhookState,
  USUAL_EVENTS,
} from './webhooks/state.ts'

const COLUMNS: readonly Column<Webhook>[] = [
  column('Webhook', {}, ({ id, url, description }) => (
    <NameLink to="/webhooks/$id" params={{ id }} name={toWebhookName({ description, url })} title={url} />
  )),
  column('Status', { width: '9rem', phone: 'aside' }, (webhook) => <WebhookStatus webhook={webhook} />),
  column('Events', { width: '24%', phone: 'none' }, ({ events }) => (
    <span title={events.join(', ')}>{events.join(', ')}</span>
  )),
  column('Last delivery', { width: '14rem', phone: 'bare' }, (webhook) => <LastAttempt webhook={webhook} />),
]

export default function WebhooksScreen() {
  const list = useList({ read: read.webhooks.list, refetchInterval: REFRESH_MS })
  return (
    <ListScreen
      title="Webhooks"
      list={list}
      columns={COLUMNS}
      noun="webhook"
      action={<ActionLink needs="developer" to="/webhooks/new" label="Add a webhook" />}
      nothing={{
        title: 'No webhook yet',
        text: 'A webhook is a URL of yours. Events are posted to it: an email was delivered, bounced or opened, or mail arrived.',
        children: <Text c="dimmed">Or with an API key:</Text>,
        command: toCurl('/v1/webhooks', {
          url: 'https://your-server.example/webhook',
          events: ['delivered', 'bounced'],
        }),
      }}
    />
  )
}

export function WebhookScreen() {
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

const FORMAT_TEXTS: Readonly<Record<Webhook['format'], string>> = {
  tassis: 'Tassis',
  resend: 'Resend',
  postmark: 'Postmark',
}

const WEBHOOK_FIELDS: readonly Field<'url' | 'description' | 'format' | 'events'>[] = [
  {
    name: 'url',
    label: 'URL',
    kind: 'code',
    hint: 'A public https address. Each event is a POST request with JSON.',
    placeholder: 'https://your-server.example/webhook',
    isRequired: true,
  },
  { name: 'description', label: 'Description', hint: 'Its name in lists, such as Billing. Optional.' },
  {
    name: 'format',
    label: 'Format',
    kind: 'choice',
    hint: 'For code written for another provider. Its format does not have all events.',
    options: Object.entries(FORMAT_TEXTS).map(([value, label]) => ({ value, label })),
  },
  { name: 'events', label: 'Events', render: (input) => <Events {...input} /> },
]

const Events = ({ value, error, isReadOnly, set }: Input) => (
  <>
    <Checkbox.Group label="Events" value={value as string[]} onChange={set} error={error}>
      <Stack gap="sm" mt={4}>
        {!isReadOnly && (
          <Group gap="xs">
            <Button size="compact-sm" variant="default" onClick={() => set(EVENT_NAMES)}>
              All
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => set([])}>
              None
            </Button>
            <Text size="sm" role="status">
              {(value as readonly string[]).length} of {EVENT_NAMES.length} chosen
            </Text>
          </Group>
        )}
        <div className="event-groups">
          {EVENT_GROUPS.map(({ label, events }) => (
            <Stack key={label} gap={8} role="group" aria-label={label}>
              <Text size="xs" c="dimmed" fw={500}>
                {label}
              </Text>
              {events.map((name) => (
                <Checkbox
                  key={name}
                  value={name}
                  disabled={isReadOnly}
                  label={name}
                  description={EVENT_EXPLANATIONS[name]}
                />
              ))}
            </Stack>
          ))}
        </div>
      </Stack>
    </Checkbox.Group>
    <Anchor href="/docs" underline="always">
      What each event contains
    </Anchor>
  </>
)

export function WebhookNewScreen() {
  const [created, setCreated] = useState<CreateWebhookResult>()
  return (
    <Page
      title={created ? 'The webhook was added' : 'Add a webhook'}
      back={{ label: 'Webhooks', target: { to: '/webhooks' } }}
    >
      {created ? (
        <Created webhook={created} />
      ) : (
        <FieldForm
          maw={640}
          needs="developer"
          label="Add the webhook"
          fields={WEBHOOK_FIELDS}
          initial={{ events: USUAL_EVENTS }}
          refreshes={['webhooks']}
          run={api.webhooks.create}
          onDone={({ data }) => setCreated(data)}
        />
      )}
    </Page>
  )
}

function Created({ webhook }: { readonly webhook: CreateWebhookResult }) {
  const test = useTestEvent(webhook.id)
  return (
    <Stack align="flex-start" maw={720}>
      <Text>
        Events are posted to <bdi>{webhook.url}</bdi> from now on. Give your server this signing secret:
      </Text>
      <SecretText secret={webhook.secret} />
      <VerifyHint />
      {test.button}
      {test.outcome}
      <TextLink to="/webhooks/$id" params={{ id: webhook.id }} name="Go to the webhook" />
    </Stack>
  )
}
