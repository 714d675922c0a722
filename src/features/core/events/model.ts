/** @module Wire form of an event, the same in email details and in the feed. */
import { type Static, Type } from '@sinclair/typebox'
import type { Actor } from '#features/core/app/app.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { extra, Nullable, OptionalNullable, Timestamp, Uuid, withStrictStatus } from '#platform/http/schemas.ts'
import type { Millis } from '#platform/units.ts'
import { deriveEventUuid, EVENT_TYPES, type EventData } from './record.ts'

/** The data of an event as clients get it. Each kind of event has only some fields. */
export type EventPayload = Omit<EventData, 'next_retry_at'> & {
  /** Of `deferred`: when the next attempt is due. */
  readonly next_retry_at?: string | null
  readonly [name: string]: unknown
}

const EVENT_FIELDS = {
  id: Uuid({ description: 'Id of the event; `event_id` in the payloads of webhooks.' }),
  email_id: Uuid({ description: 'Email of the event.' }),
  account_id: Uuid({ description: 'Account of the event.' }),
  event_type: Type.String({ description: `One of ${EVENT_TYPES.join(', ')}.` }),
  type: Type.String({ description: 'The same as event_type.' }),
  created_at: Timestamp({ description: 'When the event happened.' }),
  timestamp: Timestamp({ description: 'The same as created_at.' }),
  recipient: Nullable(Type.String(), { description: 'Recipient of the event; null when it concerns all recipients.' }),
  bounce_category: OptionalNullable(Type.String(), { description: 'Category of a bounce or deferral.' }),
  bounce_type: OptionalNullable(Type.String(), { description: 'hard or soft.' }),
  diagnostic_code: OptionalNullable(Type.String(), {
    description: 'Reply of the receiving server in the form of RFC 3464.',
  }),
  ip_address: OptionalNullable(Type.String(), {
    description: 'Source address of the delivery; for an open or click, the client address.',
  }),
  link_url: OptionalNullable(Type.String(), { description: 'Clicked link.' }),
  remote_mta: OptionalNullable(Type.String(), { description: 'Receiving server: name and address.' }),
  user_agent: OptionalNullable(Type.String(), { description: 'User agent of an open or click.' }),
  sandbox: Type.Optional(
    Type.Literal(true, {
      description: 'Present when the email was only captured because its domain was never verified, or simulated.',
    }),
  ),
  // With a type of its own: responses keep fields that no schema lists.
  raw_payload: OptionalNullable(Type.Unsafe<EventPayload>(Type.Unknown()), {
    description:
      'All data of the event. Of an attempt: smtp_response, remote_mta, tls, timings in ms by phase, bounce_category, rule (the id of the rule that decided what the reply means), reason and next_retry_at when it was deferred, suppressed when the address was put on the suppression list, relay when the reply is that of your relay, and captured when the message was captured, not sent; for `email.inbound` inbound_email_id; for `mailbox.message.received` mailbox_id and mailbox_message_id; for `domain.*` domain_id, domain, lost_records and sends_until.',
  }),
}

/** An event in the detail of its email. */
export const EmailEvent = Type.Object(
  {
    ...EVENT_FIELDS,
    event_type: withStrictStatus(EVENT_FIELDS.event_type),
    type: extra(EVENT_FIELDS.type),
    timestamp: extra(EVENT_FIELDS.timestamp),
    recipient: extra(EVENT_FIELDS.recipient),
    sandbox: extra(EVENT_FIELDS.sandbox),
  },
  { title: 'EmailEvent' },
)
export type EmailEvent = Static<typeof EmailEvent>

/** An event in the feed. */
export const FeedEvent = Type.Object({
  seq: Type.Integer({
    description:
      "Position in the account's feed: 1, 2, 3 and so on, without a gap, except that it jumps when the service was restored from a backup.",
  }),
  ...EVENT_FIELDS,
  email_id: Nullable(Uuid(), {
    description: 'Email of the event; null when it is no longer stored, and for received mail.',
  }),
})
export type FeedEvent = Static<typeof FeedEvent>

export const FeedPage = Type.Object({
  data: Type.Array(FeedEvent, {
    description: 'The events, in the order in which they happened; with `order=newest` in reverse.',
  }),
  next_after: Type.Integer({
    description:
      'Last position searched: pass it as `after` in the next request. With `types` it also grows when `data` is empty; the feed ends when it stops growing. With `order=newest` it is `last_seq`.',
  }),
  next_before: OptionalNullable(Type.Integer(), {
    description:
      'Only with `order=newest`: pass it as `before` in the next request; null when no older event is stored. With `types` a page may be empty although there are older events.',
  }),
  first_seq: Type.Integer({
    description: 'Number of the oldest stored event; if there is none, the number of the next event.',
  }),
  last_seq: Type.Integer({
    description: 'Number of the newest event; 0 before the first. A stream with `after` = `last_seq` has what follows.',
  }),
})
export type FeedPage = Static<typeof FeedPage>

/** A stored event. */
export interface RecordedEvent {
  readonly seq: number
  readonly type: string
  readonly at: Millis
  readonly recipient: string | null
  /** JSON of its data. */
  readonly data: string | null
  /** Whether its email was only captured. */
  readonly isSandbox: boolean
}

/** The account of an event. */
export type EventOwner = Pick<Actor, 'accountId' | 'accountUuid'>

/** @param emailId public id of its email */
export function toEventWire<Id extends string | null>(
  event: RecordedEvent,
  emailId: Id,
  owner: EventOwner,
  keys: KeyRing,
): Omit<EmailEvent, 'email_id'> & { email_id: Id } {
  const data = JSON.parse(event.data ?? '{}') as Record<string, unknown>
  const text = (name: string): string | null => (typeof data[name] === 'string' ? data[name] : null)
  const at = isoTime(event.at)
  const { next_retry_at: nextRetryAt } = data
  return {
    id: deriveEventUuid(keys, owner.accountId, event.seq),
    email_id: emailId,
    account_id: owner.accountUuid,
    event_type: event.type,
    type: event.type,
    created_at: at,
    timestamp: at,
    recipient: event.recipient,
    bounce_category: text('bounce_category'),
    bounce_type: text('bounce_type'),
    diagnostic_code: text('diagnostic_code'),
    ip_address: text('ip_address'),
    link_url: text('link_url'),
    remote_mta: text('remote_mta'),
    user_agent: text('user_agent'),
    ...(event.isSandbox && { sandbox: true as const }),
    raw_payload:
      event.data === null
        ? null
        : ({
            ...data,
            ...(typeof nextRetryAt === 'number' && { next_retry_at: isoTime(nextRetryAt) }),
          } as EventPayload),
  }
}
