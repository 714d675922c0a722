/** @module What happened to an email, recipient by recipient. */
import { Accordion, Button, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { EmailDetail, EmailRecipient } from '#features/sending/emails/model.ts'
import { Facts } from '../../parts/facts.tsx'
import { EventBadge, StatusBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { isCaptured, toCategoryReason, toEventData, toSuppressionWords } from './sentence.ts'
import { toShownRecipientStatus } from './shown-status.ts'

type Event = EmailDetail['events'][number]

/** Events shown at first: an email that many people open has thousands. */
const MAX_EVENTS = 40
/** Recipients with a problem whose timelines are open from the start. */
const MAX_OPENED = 3

export function Timeline({ email }: { readonly email: EmailDetail }) {
  const [only] = email.recipients
  if (email.recipients.length === 1 && only) return <RecipientTimeline email={email} recipient={only} />
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
              <StatusBadge status={toShownRecipientStatus(email, recipient)} />
            </Group>
          </Accordion.Control>
          <Accordion.Panel>
            <RecipientTimeline email={email} recipient={recipient} />
          </Accordion.Panel>
        </Accordion.Item>
      ))}
    </Accordion>
  )
}

function RecipientTimeline({ email, recipient }: { readonly email: EmailDetail; readonly recipient: EmailRecipient }) {
  const [hasAll, setHasAll] = useState(false)
  const events = toTimelineEvents(email, recipient)
  const shown = hasAll ? events : events.slice(0, MAX_EVENTS)
  return (
    <Stack gap="xs">
      <ol className="timeline" aria-label={`Events of ${recipient.address}`}>
        {shown.map((event) => (
          <li key={event.id}>
            <EventEntry event={event} email={email} />
          </li>
        ))}
        {recipient.next_retry_at && (
          <li>
            <Text size="sm">
              Next attempt: <Time iso={recipient.next_retry_at} isExact /> (attempt {recipient.attempts + 1} of at most{' '}
              {email.max_attempts})
            </Text>
          </li>
        )}
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
function toTimelineEvents(email: EmailDetail, { address }: EmailRecipient): Event[] {
  const events = email.events.filter(({ recipient }) => recipient === null || recipient === address)
  const isDelivered = events.some(({ event_type: type }) => type === 'delivered')
  return isDelivered ? events.filter(({ event_type: type }) => type !== 'sent') : events
}

function EventEntry({ event, email }: { readonly event: Event; readonly email: EmailDetail }) {
  const { event_type: type, created_at: at } = event
  const reply = toEventData(event)['smtp_response']
  const isCapture = type === 'delivered' && isCaptured(email, typeof reply === 'string' ? reply : null)
  return (
    <Stack gap={4}>
      <Group gap="sm">
        <EventBadge type={isCapture ? 'captured' : type} />
        <Text size="sm" c="dimmed" component="span">
          <Time iso={at} isExact />
        </Text>
      </Group>
      <Facts facts={toFacts(event)} />
    </Stack>
  )
}

/** Reasons that events have as a code. */
const REASONS: Readonly<Record<string, string>> = {
  suppressed: 'The address is on your suppression list',
  erased: 'The data of the recipient was erased',
}

/** What the event has of reply, server, encryption and cause; only texts, whoever wrote them. */
function toFacts(event: Event): [string, string | null | undefined][] {
  const data = toEventData(event)
  const text = (name: string): string | undefined => {
    const value = data[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const isReaction = ['opened', 'clicked', 'complained', 'unsubscribed'].includes(event.event_type)
  const category = event.bounce_category
  const reply = text('smtp_response')
  const reason = text('reason')
  const next = text('next_retry_at')
  return [
    ['Cause', category && withCode(toCategoryReason(category), category)],
    ['Bounce', event.bounce_type],
    ['Reply', reply],
    ['Reason', reason === reply ? undefined : (REASONS[reason ?? ''] ?? reason)],
    ['Suppressed for', toSuppressionWords(text('suppression'))],
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

const withCode = (words: string | undefined, code: string): string =>
  words === undefined ? code : `${words} (${code})`
