/** @module Wire form of message streams. */
import { type Static, Type } from '@sinclair/typebox'
import { toWire } from '#platform/http/envelope.ts'
import { Nullable, StrictObject, StringEnum, Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { REPUTATION_DAYS, type Reputation } from './reputation.ts'
import { STREAM_PRIORITIES, type Stream, toPriorityName } from './streams.ts'

export const StreamRecord = Type.Object({
  id: Uuid({ description: 'Id of the stream.' }),
  account_id: Uuid({ description: 'Account that the stream belongs to.' }),
  slug: Type.String({ description: 'Value of `stream` in a send.' }),
  name: Type.String({ description: 'Name.' }),
  expires_in: Nullable(Type.Integer(), {
    description: 'Seconds after which mail of the stream expires; null: the default of the service.',
  }),
  priority: StringEnum(STREAM_PRIORITIES, { description: 'Which mail of the account goes first.' }),
  created_at: Timestamp({ description: 'When the stream was created.' }),
  updated_at: Timestamp({ description: 'When the stream was last changed.' }),
})

const Count = (description: string) => Type.Integer({ minimum: 0, description })
const Rate = (description: string) =>
  Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()], { description })

const ReputationRecord = Type.Object(
  {
    period_days: Type.Literal(REPUTATION_DAYS, {
      description: 'Number of days, up to now, that the statistics cover.',
    }),
    sent: Count('Recipients whose mail was accepted, without suppressed and cancelled ones.'),
    delivered: Count('Recipients whose mail server accepted the mail and reported no failure later.'),
    bounced: Count('Recipients that were rejected permanently (hard bounces).'),
    complained: Count('Complaints received, whenever the mail was sent.'),
    bounce_rate: Rate('bounced / (delivered + bounced), 0 to 1; null when both are 0.'),
    complaint_rate: Rate('complained / delivered, 0 to 1; null when nothing was delivered.'),
  },
  { description: 'The reputation of this stream alone. Sandbox mail is not counted.' },
)

/**
 * A stream with its reputation. Lists omit the reputation, because summing a hundred streams would delay all other
 * requests.
 */
export const StreamDetail = Type.Object({ ...StreamRecord.properties, reputation: ReputationRecord })

const Slug = Text(
  'Value of `stream` in a send: 1 to 63 characters of a to z, 0 to 9 and "-", beginning with a letter or digit.',
)
const Name = Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })

/** Limits of `expires_in`, in seconds: a minute to five days. */
export const EXPIRES_IN_LIMITS = { minimum: 60, maximum: 432_000 }
const ExpiresIn = Type.Optional(
  Nullable(Type.Integer(EXPIRES_IN_LIMITS), {
    description:
      'Seconds, from acceptance or `send_at`, after which mail of the stream that is not delivered ends as bounced with category `expired`: 60 to 432000 (5 days); null: the default of the service. A send may have its own.',
  }),
)

const Priority = Type.Optional(
  StringEnum(STREAM_PRIORITIES, {
    description:
      'Which mail of the account goes first while it waits: all `high`, then all `normal` (the default), then all `low`; broadcasts come last. In a `normal` stream, batches above ten emails and mail with `transactional: false` go with `low`. It does not matter for other accounts. A change applies to mail that is accepted afterwards.',
  }),
)

export const NewStream = StrictObject({ slug: Slug, name: Name, expires_in: ExpiresIn, priority: Priority })

export const StreamChange = StrictObject(
  { slug: Type.Optional(Slug), name: Type.Optional(Name), expires_in: ExpiresIn, priority: Priority },
  { description: 'At least one field; omitted fields keep their value.' },
)

export const toStreamWire = (stream: Stream, account_id: string) =>
  toWire(StreamRecord, stream, { account_id, priority: toPriorityName(stream.priority) })

export const toStreamDetailWire = (
  stream: Stream,
  accountUuid: string,
  reputation: Reputation,
): Static<typeof StreamDetail> => ({
  ...toStreamWire(stream, accountUuid),
  reputation: toWire(ReputationRecord, reputation, { period_days: REPUTATION_DAYS }),
})
