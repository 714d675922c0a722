/** @module Wire form of mail for the operator. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { Bytes, PAGE_FIELDS, StringEnum, Text, TextOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { OPERATOR_MAIL_KINDS, type OperatorMail } from './store.ts'

export const MailQuery = Type.Object({
  ...PAGE_FIELDS,
  kind: Type.Optional(StringEnum(OPERATOR_MAIL_KINDS, { description: 'Only mail of this kind.' })),
})
const MAIL_FIELDS = {
  id: Uuid({ description: 'Id of the message.' }),
  kind: Text('postmaster, abuse, bounce, complaint, unsubscribe, report or other.'),
  reason: Text('Why the operator gets it.'),
  mail_from: Text('Sender of the envelope; empty for the null reverse-path.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Recipients of the envelope.' }),
  from: TextOrNull('From as in the header; null: none.'),
  subject: Text('Subject.'),
  source_ip: Text('Address from which it came.'),
  size_bytes: Bytes('Size of the message'),
  received_at: Timestamp({ description: 'When it arrived.' }),
}
export const OperatorMailRecord = Type.Object(MAIL_FIELDS)
export type OperatorMailRecord = Static<typeof OperatorMailRecord>
export const OperatorMailDetail = Type.Object({
  ...MAIL_FIELDS,
  text: TextOrNull('Its text, as far as it is shown; null: none, or it cannot be parsed.'),
  source: TextOrNull('Its source, the first part; null: it is no longer stored.'),
})
export type OperatorMailDetail = Static<typeof OperatorMailDetail>

export const toMailView = (mail: OperatorMail): OperatorMailRecord =>
  toWire(OperatorMailRecord, mail, { received_at: isoTime(mail.createdAt) })
