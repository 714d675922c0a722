/** @module What happened to the copy of one recipient: equal attempts together, their dialogues folded. */
import { Button, Code, Text } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { Email, EmailAttempt, EmailEvent } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useAll } from '../../api/data.ts'
import { toWords } from '../../parts/fields.ts'
import { formatCount, toEventData } from '../../parts/format.ts'
import { Facts, QueryView } from '../../parts/page.tsx'
import { EventBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { type EventGroup, formatDialogue, formatTimings, groupEvents, toEventText, toText } from './format.ts'

interface TimelineProps {
  readonly email: Email
  readonly address: string
}

/** Entries shown at first: an email that many people open has thousands. */
const MAX_SHOWN = 40

export function Timeline({ email, address }: TimelineProps) {
  const [hasAll, setHasAll] = useState(false)
  const groups = groupEvents(email.events, address)
  const shown = hasAll ? groups : groups.slice(0, MAX_SHOWN)
  if (groups.length === 0) return <Text>No event of this recipient is stored.</Text>
  return (
    <>
      <ol className="timeline" aria-label={`Events of ${address}`}>
        {shown.map((group) => (
          <li key={group.first.id}>
            <Entry group={group} id={email.id} address={address} />
          </li>
        ))}
      </ol>
      {groups.length > shown.length && (
        <Button variant="default" size="xs" onClick={() => setHasAll(true)}>
          Show all {groups.length}
        </Button>
      )}
    </>
  )
}

/** Types of events that end an attempt. */
const ATTEMPTS: readonly string[] = ['delivered', 'deferred', 'bounced', 'failed', 'uncertain']

interface EntryProps {
  readonly group: EventGroup
  readonly id: string
  readonly address: string
}

function Entry({ group: { type, events, first, last }, id, address }: EntryProps) {
  const isAttempt = ATTEMPTS.includes(type) && last.recipient !== null
  const count = events.length
  const text = toEventText(last)
  const facts = toFacts(last)
  const noun = isAttempt ? 'attempt' : 'time'
  return (
    <>
      <div className="event-head">
        <EventBadge type={toEventData(last)['captured'] ? 'captured' : type} />
        {count > 1 && (
          <span>
            {formatCount(count, noun)}
            {isAttempt && text !== undefined && (toEventData(last)['smtp_response'] ? ', same reply' : ', same result')}
          </span>
        )}
        <span className="event-time">
          {count > 1 && <Time iso={first.created_at} hasSeconds after=" to " />}
          <Time iso={last.created_at} hasSeconds />
        </span>
      </div>
      {text !== undefined && (
        <p className="event-text">
          <bdi>{text}</bdi>
        </p>
      )}
      {(isAttempt || facts.some(([, value]) => value)) && (
        <Details label={isAttempt ? `Dialogue${count > 1 ? 's' : ''}` : 'Details'}>
          {() => (
            <>
              <Facts facts={facts} />
              {isAttempt && <Attempts id={id} address={address} times={events.map(({ created_at: at }) => at)} />}
            </>
          )}
        </Details>
      )}
    </>
  )
}

/** What it shows is made, and read, when it is opened. */
function Details({ label, children }: { readonly label: string; children(): ReactNode }) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <details className="event-details" onToggle={({ currentTarget: { open } }) => setIsOpen(open)}>
      <summary>{label}</summary>
      {isOpen && children()}
    </details>
  )
}

/** What the event has besides its line; only texts, whoever wrote them. */
function toFacts(event: EmailEvent): [string, string | null | undefined][] {
  const text = (name: string): string | undefined => toText(toEventData(event)[name])
  const isReaction = ['opened', 'clicked', 'complained', 'unsubscribed'].includes(event.event_type)
  const reason = text('reason')
  return [
    ['Reason', [toEventText(event), 'suppressed', 'draft'].includes(reason) ? undefined : reason],
    ['Category', event.bounce_category && toWords(event.bounce_category)],
    ['Bounce', event.bounce_type],
    ['Server', event.remote_mta],
    ['TLS', text('tls')],
    [isReaction ? 'Client address' : 'Sent from', event.ip_address],
    ['Client', event.user_agent],
  ]
}

interface AttemptsProps {
  readonly id: string
  readonly address: string
  readonly times: readonly string[]
}

function Attempts({ id, address, times }: AttemptsProps) {
  const query = useAll(read.emails.listAttempts(id, { per_page: 100 }))
  return (
    <QueryView query={query}>
      {(attempts) => {
        const own = attempts.filter(({ recipient, ended_at: at }) => recipient === address && times.includes(at))
        return own.length === 0 ? (
          <Text>The dialogue is no longer stored.</Text>
        ) : (
          own.map((attempt) => <Attempt key={`${attempt.attempt} ${attempt.ended_at}`} attempt={attempt} />)
        )
      }}
    </QueryView>
  )
}

function Attempt({ attempt: { attempt, ended_at: at, timings, rule, dialogue } }: { readonly attempt: EmailAttempt }) {
  const text = dialogue && formatDialogue(dialogue)
  return (
    <div className="attempt" data-attempt={attempt}>
      <div>
        Attempt {attempt} · <Time iso={at} hasSeconds />
        <span className="dimmed">
          {timings && ` · ${formatTimings(timings)}`}
          {rule && ` · rule ${rule}`}
        </span>
      </div>
      {text ? (
        <Code block tabIndex={0} style={{ whiteSpace: 'pre-wrap' }}>
          {text}
        </Code>
      ) : (
        <Text c="dimmed">The dialogue is no longer stored.</Text>
      )}
    </div>
  )
}
