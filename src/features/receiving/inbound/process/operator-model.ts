/** @module Wire form, for operators, of received mail that is not processed yet, or could not be parsed. */
import { type Static, Type } from '@sinclair/typebox'
import type { Destination } from '#features/receiving/received/message.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { Bytes, Text, TextOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { isSuspect, type QueueEntry } from './queue.ts'

export const ReceivedEntry = Type.Object({
  id: Text('Id of the entry.'),
  mail_from: Text('Sender of the envelope; empty for the null reverse-path.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Recipients of the envelope; the first 20.' }),
  source_ip: Text('Address from which it came.'),
  size_bytes: Bytes('Size of the message'),
  is_suspect: Type.Boolean({
    description: 'Whether the process ended with it in progress: it is then processed alone.',
  }),
  received_at: Timestamp({ description: 'When it arrived.' }),
})
export type ReceivedEntry = Static<typeof ReceivedEntry>

export const UnparsedQuery = Type.Object({
  after: Type.Optional(
    Type.String({ maxLength: 50, pattern: '^\\d{1,15}-\\d{1,15}$', description: '`next_after` of the previous page.' }),
  ),
})
export const UnparsedMessage = Type.Object({
  id: Uuid({ description: 'Id of the message.' }),
  kind: Text('`inbound` for a route or a domain; `mailbox` for an agent mailbox.'),
  to: Text('Recipients.'),
  from: Text('Sender.'),
  subject: Text('Subject.'),
  parse_error: Text('Why it could not be parsed.'),
  received_at: Timestamp({ description: 'When it arrived.' }),
})
export type UnparsedMessage = Static<typeof UnparsedMessage>
export const RetryResult = Type.Object({
  id: Uuid({ description: 'Id of the message.' }),
  parse_error: TextOrNull('Why it still cannot be parsed; null: it was parsed.'),
})
export type RetryResult = Static<typeof RetryResult>

/** A message has at most a few hundred recipients. */
const MAX_SHOWN_RECIPIENTS = 20

export const toReceivedEntry = (entry: QueueEntry): ReceivedEntry => ({
  id: String(entry.id),
  mail_from: entry.mailFrom,
  rcpt_to: (JSON.parse(entry.destinations) as Destination[])
    .slice(0, MAX_SHOWN_RECIPIENTS)
    .map(({ address }) => address),
  source_ip: entry.sourceIp,
  size_bytes: entry.sizeBytes,
  is_suspect: isSuspect(entry),
  received_at: isoTime(entry.receivedAt),
})
