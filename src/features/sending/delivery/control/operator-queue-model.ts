/** @module Wire shapes of /v1/operator/queue. */
import { type Static, Type } from '@sinclair/typebox'
import { QUEUE_RULE_KINDS } from '#features/sending/queue/queue-rules.ts'
import {
  Count,
  Filter,
  MAX_FILTER_LENGTH,
  Nullable,
  PAGE_FIELDS,
  StrictObject,
  StringEnum,
  Text,
  TextOrNull,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'

export const MAX_QUEUE_REASON_LENGTH = 300

export const QueueQuery = Type.Object({
  ...PAGE_FIELDS,
  account_id: Filter('Only mail of the account with this id.'),
  domain: Filter('Only mail to this domain.'),
})
export const QueueLane = Type.Object({
  lane: Text('Name of the lane: the mail of one account to one domain; broadcasts have their own.'),
  account_id: Nullable(Uuid(), { description: 'Id of the account; null: it is deleted.' }),
  account: TextOrNull('Name of the account; null: it is deleted.'),
  domain: Text(
    'Domain of the recipients; `sandbox` for mail that is only captured, `simulator` for mail to the simulator.',
  ),
  label: Text('The lane for people: its domain, and its account and kind of mail in brackets.'),
  is_broadcast: Type.Boolean({ description: 'Whether it is mail of broadcasts, which yields to other mail.' }),
  waiting: Count('Number of recipients.'),
  first_due_at: Timestamp({ description: 'When the earliest is due.' }),
  reason: Text('Why it waits.'),
})
export type QueueLane = Static<typeof QueueLane>

const SELECTOR_FIELDS = {
  domain: Filter(
    'Mail to this domain; `sandbox` for mail that is only captured, `simulator` for mail to the simulator.',
  ),
  provider: Filter('Mail to the domains of this provider, by their MX hosts: a name of `GET /v1/operator/providers`.'),
  account_id: Filter('Mail of the account with this id.'),
  email_id: Filter('This email; without `domain`, `provider` and `account_id`.'),
}
const REASON_FIELD = { reason: Filter(`Why, at most ${MAX_QUEUE_REASON_LENGTH} characters.`) }
export const CURSOR_FIELD = { cursor: Type.Optional(Text('`next_cursor` of the response before, to continue.')) }
export const QueueSelector = StrictObject(SELECTOR_FIELDS)
export const QueueHoldRequest = StrictObject({ ...SELECTOR_FIELDS, ...REASON_FIELD })
export const QueueRedirectRequest = StrictObject({
  ...SELECTOR_FIELDS,
  ...REASON_FIELD,
  to: Type.String({
    maxLength: MAX_FILTER_LENGTH,
    description: '`example.com` (its MX hosts), `[mx.example.com]` or an IP address, each with `:PORT` or without.',
  }),
})
export const QueueReleaseRequest = StrictObject({
  ...SELECTOR_FIELDS,
  kind: Type.Optional(StringEnum(QUEUE_RULE_KINDS, { description: 'Only holds or only redirects; default: both.' })),
})
export const QueueChangeRequest = StrictObject({ ...SELECTOR_FIELDS, ...CURSOR_FIELD })
export const QueueBounceRequest = StrictObject({
  ...SELECTOR_FIELDS,
  ...CURSOR_FIELD,
  reason: Type.String({
    maxLength: MAX_FILTER_LENGTH,
    description: `Why, 1 to ${MAX_QUEUE_REASON_LENGTH} characters; the senders read it.`,
  }),
})
export const HeldMailRelease = Type.Object({
  released: Count('Recipients that are due again; those whose content is still missing are held again.'),
})
export const QueueSelection = Type.Object({
  waiting: Count('Recipients that wait for an attempt.'),
  in_delivery: Count('Recipients in delivery, which no action changes.'),
})
export type QueueSelection = Static<typeof QueueSelection>
export const QueueChange = Type.Object({
  changed: Count('Recipients that were changed.'),
  in_delivery: Count('Recipients that were left alone, because they were in delivery.'),
  held: Count('Recipients that were left alone, because an operator holds them.'),
  suspended: Type.Array(Type.String(), {
    description:
      'Suspended providers of the mail that is retried: it waits for their probes, until they are resumed. Empty for other actions.',
  }),
  next_cursor: TextOrNull('There is more: repeat the request with this `cursor`. Null: all was examined.'),
})
export type QueueChange = Static<typeof QueueChange>
export const QueueRuleRecord = Type.Object({
  id: Text('Id of the hold or redirect.'),
  kind: StringEnum(QUEUE_RULE_KINDS, { description: 'hold or redirect.' }),
  domain: TextOrNull('Domain of the recipients; null: any.'),
  provider: TextOrNull('Provider of the domain of the recipients; null: any.'),
  account_id: Nullable(Uuid(), { description: 'Id of the account; null: any, or it is deleted.' }),
  account: TextOrNull('Name of the account; null: any, or it is deleted.'),
  email_id: Nullable(Uuid(), { description: 'Id of the email; null: not one email.' }),
  to: TextOrNull('Where redirected mail goes; null: it is held.'),
  reason: Text('Why, in the words of the operator; may be empty.'),
  created_by: Text('`cli`, or the id of the user.'),
  created_at: Timestamp({ description: 'Since when.' }),
})
export type QueueRuleRecord = Static<typeof QueueRuleRecord>

export const QueueRecipientQuery = Type.Object({
  lane: Type.String({ maxLength: MAX_FILTER_LENGTH, description: 'Name of a lane, as in the queue.' }),
})
export const QueueRecipient = Type.Object({
  email_id: Uuid({ description: 'Id of the email.' }),
  account: Text('Name of the account.'),
  lane: Text('Name of the lane.'),
  recipient: Text('Address of the recipient.'),
  status: Text('Status of the recipient.'),
  attempts: Count('Number of attempts so far.'),
  next_at: Timestamp({ description: 'When the next attempt is due.' }),
  waits_for: Nullable(StringEnum(['hold', 'fence']), {
    description: 'What an operator must end before that: a hold, or the fence of restored data; null: neither.',
  }),
  last_error: TextOrNull('Why the last attempt failed; null: it has not failed.'),
})
export type QueueRecipient = Static<typeof QueueRecipient>
