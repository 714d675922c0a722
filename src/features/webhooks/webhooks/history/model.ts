/** @module Wire shapes of webhooks and their deliveries. */
import { type Static, Type } from '@sinclair/typebox'
import { deriveEventUuid } from '#features/core/events/record.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { isoTimeOrNull, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { DELIVERY_STATUSES, FORMAT_NOTE, PAYLOAD_FORMATS, TEST_EVENT, WEBHOOK_EVENTS } from '../event-names.ts'
import type { Webhook } from '../manage/webhooks.ts'
import { type Delivery, HISTORY_EVENTS, MAX_LISTED, type readDeliveryRequest } from './history.ts'

/** More names than there are events, so that duplicates fit. */
const MAX_EVENT_NAMES = 100

const WEBHOOK_FIELDS = {
  id: S.Uuid({ description: 'Id of the webhook.' }),
  account_id: S.Uuid({ description: 'Account it belongs to.' }),
  url: S.Text('Where events are posted.'),
  description: S.extra(S.TextOrNull('What you call it; null: nothing.')),
  events: Type.Array(Type.String(), { description: 'Names of the events that it gets.' }),
  format: S.extra(S.StringEnum(PAYLOAD_FORMATS, { description: `Form of the payloads. ${FORMAT_NOTE}` })),
  is_active: Type.Boolean({ description: 'Whether anything is posted.' }),
  failure_count: S.Count('Consecutive failed attempts; the tenth deactivates it.'),
  failing_since: S.extra(S.TimeOrNull('When the first of these failed attempts was made; null: there is none.')),
  last_failure_at: S.TimeOrNull('When the last failed attempt was made.'),
  last_failure_reason: S.TextOrNull('Why it failed, or that failures deactivated the webhook.'),
  last_success_at: S.TimeOrNull('When the last attempt with a 2xx response was made.'),
  secret_rotated_at: S.extra(S.TimeOrNull('When its signing secret was last replaced; null: never.')),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it was last changed.' }),
}

export const WebhookRecord = Type.Object(WEBHOOK_FIELDS)
export type WebhookRecord = Static<typeof WebhookRecord>

export const CreatedWebhook = Type.Object({
  ...WEBHOOK_FIELDS,
  secret: S.Text('Signing secret. Shown only now.'),
})
export type CreatedWebhook = Static<typeof CreatedWebhook>

const url = (more = {}) =>
  Type.String({ description: 'https URL without credentials that resolves to a public address.', ...more })
const events = (more = {}) =>
  Type.Array(Type.String(), {
    maxItems: MAX_EVENT_NAMES,
    description: `At least one of ${WEBHOOK_EVENTS.join(', ')}.`,
    ...more,
  })

const MAX_DESCRIPTION_LENGTH = 200
const description = (text: string) =>
  S.OptionalNullable(Type.String({ maxLength: MAX_DESCRIPTION_LENGTH }), { description: text })

const format = (omitted: string) =>
  Type.Optional(
    S.StringEnum(PAYLOAD_FORMATS, { description: `Form of the payloads; default: ${omitted}. ${FORMAT_NOTE}` }),
  )

export const NewWebhook = S.StrictObject({
  url: url(),
  events: events(),
  description: description('What you call it.'),
  format: format('tassis'),
})

/** Clients that only want to change is_active tend to omit the other fields. */
const PUT_HINT = { 'x-missing': 'a PUT sends all of url, events and is_active' }

/** Makes sure that a change overwrites no change of somebody else. */
const SEEN = Type.Optional(S.Text('`updated_at` of the webhook as you saw it; 409 when it was changed since then.'))

export const WebhookChange = S.StrictObject({
  updated_at: SEEN,
  url: url(PUT_HINT),
  events: events(PUT_HINT),
  description: description('What you call it; null: nothing. Stays as it is when it is omitted.'),
  format: format('as it is'),
  is_active: Type.Boolean({
    ...PUT_HINT,
    description: 'Whether anything is posted. A webhook that failures deactivated becomes active in any case.',
  }),
})

export const TestResult = Type.Object({
  message: S.Text('What happens now.'),
  delivery_id: S.extra(S.Uuid({ description: 'Id of the delivery, which shows the result.' })),
  payload: S.Part('The body that is posted.', {
    event: Type.Literal(TEST_EVENT, { description: 'Name of the event.' }),
    account_id: S.Uuid({ description: 'Account of the webhook.' }),
    timestamp: S.Timestamp({ description: 'When the test was requested.' }),
    data: S.Part('What the event carries.', { message: S.Text('States that this is a test.') }),
  }),
})

export type TestResult = Static<typeof TestResult>

export const DeliveryQuery = Type.Object({
  ...S.PAGE_FIELDS,
  status: Type.Optional(S.StringEnum(DELIVERY_STATUSES, { description: 'Only deliveries with this status.' })),
  event: Type.Optional(S.StringEnum(HISTORY_EVENTS, { description: 'Only deliveries of this event.' })),
})

/** Fields that deliveries of all webhooks share, apart from id, webhook and subject. */
export const DELIVERY_FIELDS = {
  event: S.Text('Name of the event.'),
  event_id: S.UuidOrNull('Id of the event in the event feed; null when it is not in the feed.'),
  seq: S.CountOrNull('Position of the event in the event feed; null when it is not in the feed.'),
  status: S.Text(
    'pending: another attempt follows; delivered: the response was a 2xx; undeliverable: no further attempt follows.',
  ),
  attempts: S.Count('Attempts made so far.'),
  next_attempt_at: S.TimeOrNull('When the next attempt is due; null when there is none.'),
  attempted_at: S.TimeOrNull('When the last attempt was made.'),
  duration_ms: S.CountOrNull('How long the last attempt took, in milliseconds.'),
  status_code: S.CountOrNull('Status of the last response; null when there was none.'),
  response: S.TextOrNull('The first 1 kB of the last response.'),
  error: S.TextOrNull('Why the last attempt failed, or why there is none.'),
  created_at: S.Timestamp({ description: 'When the delivery was created.' }),
}

export const DeliveryRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the delivery.' }),
  webhook_id: S.Uuid({ description: 'Webhook it is for.' }),
  email_id: S.UuidOrNull('Email of the event; null when it has none.'),
  ...DELIVERY_FIELDS,
})
export type DeliveryRecord = Static<typeof DeliveryRecord>

export const DeliveryDetail = Type.Object({
  ...DeliveryRecord.properties,
  payload: S.TextOrNull(
    'The JSON text that is posted. It is built from stored data: the same octets at every attempt, unless a person in it was erased since then. Null when the event is no longer kept.',
  ),
  headers: S.Nullable(Type.Record(Type.String(), Type.String()), {
    description:
      'Headers of the last attempt; null before the first, and when there is no payload. The signatures are missing when the secret was replaced since then, and without the scope webhooks:write.',
  }),
})

export const PayloadQuery = Type.Object({
  format: Type.Optional(
    S.StringEnum(PAYLOAD_FORMATS, { description: `Form of the payload; default: tassis. ${FORMAT_NOTE}` }),
  ),
})

export const EventPayload = Type.Object({
  event: S.Text('Name of the event.'),
  event_id: S.Uuid({ description: 'Id of the event in the event feed.' }),
  payload: S.Text('The JSON text that a webhook would get.'),
})

export const SecretResult = Type.Object({
  secret: S.Text('Signing secret of the webhook.'),
})

export const SecretRotation = S.StrictObject({ updated_at: SEEN })

const Seq = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }))
const Time = (description: string) => Type.Optional(S.Text(description))

export const RANGE_FIELDS = {
  from_seq: Seq('Position in the event feed of the first event.'),
  to_seq: Seq('Position of the last event; default: the newest.'),
  from: Time('Date-time (ISO 8601) of the first event.'),
  to: Time('Date-time of the last event; default: now.'),
  undelivered: Type.Optional(
    Type.Boolean({
      description:
        'Only events that have no delivery here that was accepted or is pending, as far as the history reaches.',
    }),
  ),
}

/** Maximum number of deliveries that one replay creates. */
export const MAX_REPLAYED = 10_000

export const ReplayRange = S.StrictObject(
  {
    ...RANGE_FIELDS,
    events: Type.Optional(
      Type.Array(Type.String(), {
        maxItems: MAX_EVENT_NAMES,
        description: 'Only these events; default: all that the webhook subscribes to.',
      }),
    ),
  },
  { description: `Either from_seq or from is required. One call replays at most ${MAX_REPLAYED} events.` },
)
export type ReplayRange = Static<typeof ReplayRange>

const replayFields = (deliveries: string) =>
  Type.Object({
    deliveries: S.Count(deliveries),
    from_seq: S.CountOrNull('Position of their first event; null when there is none.'),
    to_seq: S.CountOrNull('Position of their last event.'),
  })

export const ReplayResult = replayFields('Deliveries that were queued.')
export type ReplayResult = Static<typeof ReplayResult>

export const ReplayCount = replayFields('Deliveries that a replay would queue.')

/** For the descriptions of lists. */
export const HISTORY_LIMIT_NOTE = `The list and its total cover only the newest ${MAX_LISTED} deliveries under the filter.`

export const toWebhookWire = (webhook: Webhook, account_id: string): WebhookRecord =>
  toWire(WebhookRecord, webhook, { account_id })

export const toDeliveryWire = (delivery: Delivery, webhook: Webhook, keys: KeyRing): DeliveryRecord => ({
  id: formatUuid(delivery.uuid),
  webhook_id: formatUuid(webhook.uuid),
  email_id: delivery.emailUuid === null ? null : formatUuid(delivery.emailUuid),
  ...toDeliveryFields(delivery, webhook, keys),
})

export const toDeliveryDetail = (
  { delivery, webhook, payload, headers }: ReturnType<typeof readDeliveryRequest>,
  keys: KeyRing,
): Static<typeof DeliveryDetail> => ({ ...toDeliveryWire(delivery, webhook, keys), payload, headers })

const DeliveryFields = Type.Object(DELIVERY_FIELDS)

export const toDeliveryFields = (delivery: Delivery, webhook: Webhook, keys: KeyRing): Static<typeof DeliveryFields> =>
  toWire(DeliveryFields, delivery, {
    next_attempt_at: isoTimeOrNull(delivery.nextAt),
    event_id: delivery.seq === null ? null : deriveEventUuid(keys, webhook.accountId, delivery.seq),
  })
