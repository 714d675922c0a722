/** @module What happened to an email, recipient by recipient. */
import { Accordion, Button, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { Email, EmailRecipient, RecipientExplanation } from '#client/api.ts'
import { toEventData } from '../../parts/format.ts'
import { Facts } from '../../parts/page.tsx'
import { EventBadge, StatusBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { RESPONSIBLE_LABELS } from './format.ts'

type Event = Email['events'][number]

/** Events shown at first: an email that many people open has thousands. */
const MAX_EVENTS = 40
/** Recipients with a problem whose timelines are open from the start. */
const MAX_OPENED = 3

export function Timeline({ email }: { readonly email: Email }) {
  const [only] = email.recipients
  if (email.recipients.length === 1 && only)
    return <RecipientTimeline email={email} recipient={only} explanation={email.explanations[0]} />
  const opened = email.recipients
    .flatMap(({ status }, index) => (status === 'sent' ? [] : [String(index)]))
    .slice(0, MAX_OPENED)
  return (
    <Accordion multiple variant="contained" order={3} defaultValue={opened} keepMounted={false}>
      {email.recipients.map((recipient, index) => (
        <Accordion.Item key={`${recipient.kind} ${recipient.address}`} value={String(index)}>
          <Accordion.Control>
            <Group gap="xs" justify="space-between">
              <Text size="sm">
                <bdi>{recipient.address}</bdi>
                {recipient.kind !== 'to' && ` (${recipient.kind === 'cc' ? 'Cc' : 'Bcc'})`}
              </Text>
              <StatusBadge status={email.explanations[index]?.state ?? recipient.status} />
            </Group>
          </Accordion.Control>
          <Accordion.Panel>
            <Text size="sm">{email.explanations[index]?.sentence}</Text>
            <RecipientTimeline email={email} recipient={recipient} explanation={email.explanations[index]} />
          </Accordion.Panel>
        </Accordion.Item>
      ))}
    </Accordion>
  )
}

interface RecipientTimelineProps {
  readonly email: Email
  readonly recipient: EmailRecipient
  readonly explanation: RecipientExplanation | undefined
}

function RecipientTimeline({ email, recipient, explanation }: RecipientTimelineProps) {
  const [hasAll, setHasAll] = useState(false)
  const events = toTimelineEvents(email, recipient)
  const shown = hasAll ? events : events.slice(0, MAX_EVENTS)
  return (
    <Stack gap="xs">
      {explanation && (
        <Facts
          facts={[
            ['What to do', explanation.advice],
            ['Who must act', RESPONSIBLE_LABELS[explanation.who_must_act]],
            ['Next', explanation.next_at && <Time iso={explanation.next_at} />],
          ]}
        />
      )}
      <ol className="timeline" aria-label={`Events of ${recipient.address}`}>
        {shown.map((event) => (
          <li key={event.id}>
            <EventEntry event={event} />
          </li>
        ))}
        {events.length === 0 && (
          <li>
            <Text size="sm">No event of this recipient is stored.</Text>
          </li>
        )}
      </ol>
      {events.length > shown.length && (
        <Button variant="default" size="xs" onClick={() => setHasAll(true)}>
          Show all {events.length} events
        </Button>
      )}
    </Stack>
  )
}

/** Without `sent`, which says nothing beside the `delivered` that comes with it. */
function toTimelineEvents(email: Email, { address }: EmailRecipient): Event[] {
  const events = email.events.filter(({ recipient }) => recipient === null || recipient === address)
  const isDelivered = events.some(({ event_type: type }) => type === 'delivered')
  return isDelivered ? events.filter(({ event_type: type }) => type !== 'sent') : events
}

function EventEntry({ event }: { readonly event: Event }) {
  const { event_type: type, created_at: at } = event
  return (
    <Stack gap={4}>
      <Group gap="sm">
        <EventBadge type={toEventData(event)['captured'] ? 'captured' : type} />
        <Text size="sm" c="dimmed" component="span">
          <Time iso={at} hasSeconds />
        </Text>
      </Group>
      <Facts facts={toFacts(event)} />
    </Stack>
  )
}

/** What the event has of reply, server, encryption and cause; only texts, whoever wrote them. */
function toFacts(event: Event): [string, string | null | undefined][] {
  const text = (name: string): string | undefined => {
    const value = toEventData(event)[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const isReaction = ['opened', 'clicked', 'complained', 'unsubscribed'].includes(event.event_type)
  const reply = text('smtp_response')
  const reason = text('reason')
  const next = text('next_retry_at')
  return [
    ['Category', event.bounce_category],
    ['Bounce', event.bounce_type],
    ['Reply', reply],
    ['Reason', reason === reply ? undefined : reason],
    ['Suppressed for', text('suppression')],
    ['Server', event.remote_mta],
    ['TLS', text('tls')],
    [isReaction ? 'Client address' : 'Sent from', event.ip_address],
    ['Link', event.link_url],
    ['Client', event.user_agent],
    ['Report', text('feedback_type')],
    ['Stopped', text('scope')],
    ['Next attempt', next && new Date(next).toLocaleString()],
  ]
}
