/** @module JSON shapes of dead letters. */
import { type Static, Type } from '@sinclair/typebox'
import { messageIdOf } from '#features/sending/queue/email.ts'
import { isoTime, toWire } from '#platform/http/envelope.ts'
import { Nullable, QueryInteger, Text, Timestamp, Uuid, withStrictStatus } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { DeadLetter } from './dead-letters.ts'

export const DEFAULT_COUNT = 50
export const MAX_LISTED = 200

export const DeadLetterQuery = Type.Object({
  count: QueryInteger({ minimum: 0, maximum: MAX_LISTED, default: DEFAULT_COUNT, description: 'How many to return.' }),
})

export const DeadLetterRecord = Type.Object({
  id: Type.String({ description: 'Id of the dead letter.' }),
  stream_id: Type.String({ description: 'The same as id.' }),
  original_stream: Type.String({ description: 'Slug of the stream of the email; empty if it has none.' }),
  email_id: Uuid({ description: 'Email that was not delivered.' }),
  account_id: Uuid({ description: 'Account that sent it.' }),
  from_address: Type.String({ description: 'Sender of the email.' }),
  to_address: Type.String({ description: 'Recipient whose delivery ended.' }),
  subject: Type.String({ description: 'Subject of the email.' }),
  failure_reason: Text(
    'expired: not delivered in time; failed: an error of the service; uncertain: the receiver may have it, so a retry may deliver it twice.',
  ),
  original_status: withStrictStatus(
    Type.String({ description: 'How the delivery ended: bounced, failed or uncertain.' }),
  ),
  attempt_count: Type.Integer({ description: 'Attempts at this recipient.' }),
  attempts: Type.Integer({ description: 'The same as attempt_count.' }),
  last_error: Type.String({ description: 'How the last attempt ended; empty if nothing is known.' }),
  error_message: Nullable(Type.String(), { description: 'The same as last_error; null if nothing is known.' }),
  failed_at: Timestamp({ description: 'When the delivery ended.' }),
  created_at: Timestamp({ description: 'The same as failed_at.' }),
  payload: Type.Object(
    {
      message_id: Type.String({ description: 'Message-ID header, with angle brackets.' }),
      from: Type.String({ description: 'Sender of the email.' }),
      to: Type.String({ description: 'Recipient whose delivery ended.' }),
      subject: Type.String({ description: 'Subject of the email.' }),
      stream: Nullable(Type.String(), { description: 'Slug of its stream.' }),
      sandbox: Type.Boolean({ description: 'True if it was only captured or simulated.' }),
      scheduled_at: Nullable(Timestamp(), { description: 'When it was scheduled to be sent.' }),
      created_at: Timestamp({ description: 'When the email was accepted.' }),
    },
    { description: 'The email in brief, without its bodies.' },
  ),
})
export type DeadLetterRecord = Static<typeof DeadLetterRecord>

export const DeadLetterList = Type.Object({
  data: Type.Array(DeadLetterRecord, { description: 'Newest first.' }),
  total: Type.Integer({ description: 'Total number of dead letters.' }),
})

export const Retried = Type.Object({
  message: Type.String({ description: 'Confirms that the email is queued again.' }),
})

export function deadLetterWire(letter: DeadLetter, accountUuid: string): DeadLetterRecord {
  const id = String(letter.id)
  return toWire(DeadLetterRecord, letter, {
    id,
    stream_id: id,
    original_stream: letter.stream ?? '',
    email_id: formatUuid(letter.emailUuid),
    account_id: accountUuid,
    from_address: letter.from,
    to_address: letter.to,
    failure_reason: letter.reason,
    original_status: letter.status,
    attempt_count: letter.attempts,
    last_error: letter.lastError ?? '',
    error_message: letter.lastError,
    created_at: isoTime(letter.failedAt),
    payload: toWire(DeadLetterRecord.properties.payload, letter, {
      message_id: messageIdOf(letter.emailUuid, letter.from, letter.messageId),
      created_at: isoTime(letter.acceptedAt),
    }),
  })
}
