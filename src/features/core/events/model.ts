/** @module The wire form of an event, the same in the detail of an email and in the feed. */
import { type Static, Type } from '@sinclair/typebox'
import type { Millis } from '#platform/clock.ts'
import type { KeyRing } from '#platform/crypto.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { Nullable, OptionalNullable, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { deriveEventUuid, EVENT_TYPES } from './record.ts'

const EVENT_FIELDS = {
  id: Uuid({ description: 'Id of the event; `event_id` in the payloads of webhooks.' }),
  email_id: Uuid({ description: 'Email it happened to.' }),
  account_id: Uuid({ description: 'Account that it happened in.' }),
  event_type: Type.String({ description: `One of ${EVENT_TYPES.join(', ')}.` }),
  type: Type.String({ description: 'The same as event_type.' }),
  created_at: Timestamp({ description: 'When it happened.' }),
  timestamp: Timestamp({ description: 'The same as created_at.' }),
  recipient: Nullable(Type.String(), { description: 'Recipient it happened to; null when it concerns all.' }),
  bounce_category: OptionalNullable(Type.String(), { description: 'Category of a bounce or deferral.' }),
  bounce_type: OptionalNullable(Type.String(), { description: 'hard or soft.' }),
  diagnostic_code: OptionalNullable(Type.String(), {
    description: 'Reply of the receiving server in the form of RFC 3464.',
  }),
  ip_address: OptionalNullable(Type.String(), {
    description: 'Source address of the delivery; of an open or click, the address it came from.',
  }),
  link_url: OptionalNullable(Type.String(), { description: 'Link of a click.' }),
  remote_mta: OptionalNullable(Type.String(), { description: 'Receiving server: name and address.' }),
  user_agent: OptionalNullable(Type.String(), { description: 'User agent of an open or click.' }),
  sandbox: Type.Optional(
    Type.Literal(true, { description: 'Present when the email was only captured: its domain was never verified.' }),
  ),
  raw_payload: OptionalNullable(Type.Unknown(), {
    description:
      'All that the event carries: reason, smtp_response, tls, next_retry_at; of `email.inbound` inbound_email_id, of `mailbox.message.received` mailbox_id and mailbox_message_id; of `domain.*` domain_id, domain, lost_records and sends_until.',
  }),
}

/** An event in the detail of its email. */
export const EmailEvent = Type.Object(EVENT_FIELDS)
export type EmailEvent = Static<typeof EmailEvent>

/** An event in the feed. */
export const FeedEvent = Type.Object({
  seq: Type.Integer({ description: "Position in the account's feed: 1, 2, 3 and so on, without a gap." }),
  ...EVENT_FIELDS,
  email_id: Nullable(Uuid(), {
    description: 'Email it happened to; null when that is no longer kept, and of mail that came in.',
  }),
})
export type FeedEvent = Static<typeof FeedEvent>

export const FeedPage = Type.Object({
  data: Type.Array(FeedEvent, { description: 'The events, in the order in which they happened.' }),
  next_after: Type.Integer({
    description:
      'Everything up to here was looked at: the `after` of the next request. With `types` it grows also when `data` is empty; it is the end when it does not grow.',
  }),
  first_seq: Type.Integer({
    description: 'The oldest event that is kept; while there is none, the number that the next one gets.',
  }),
})
export type FeedPage = Static<typeof FeedPage>

/** What is stored of an event. */
export interface RecordedEvent {
  readonly seq: number
  readonly type: string
  readonly at: Millis
  readonly recipient: string | null
  /** JSON of what it carries. */
  readonly data: string | null
  /** Whether it is of an email that was only captured. */
  readonly isSandbox: boolean
}

/** Whose event it is. */
export interface EventOwner {
  readonly accountId: number
  readonly accountUuid: string
}

/** @param emailId public id of the email it happened to */
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
        : { ...data, ...(typeof nextRetryAt === 'number' && { next_retry_at: isoTime(nextRetryAt) }) },
  }
}
