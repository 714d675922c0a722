/**
 * @module Builds the webhook payload of a mailbox message. It comes from stored data that never changes, so every
 * attempt sends the same bytes.
 */
import { Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { readTruncatedBodies, toAttachmentWire } from '#features/receiving/received/parts.ts'
import { isoTime, toWire } from '#platform/http/envelope.ts'
import { Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { findMailboxById } from './mailboxes.ts'
import { findMessageOfAccount } from './messages.ts'
import { MessageRecord } from './model.ts'

/** Limit of each body in a payload; the API returns complete bodies. */
const MAX_BODY_BYTES = 256 * KiB

const { thread_id, message_id, in_reply_to, references, reply_to, subject, classification, spam, parse_error } =
  MessageRecord.properties
const { text_body, text_body_stripped, html_body, attachments, content, source_ip, authentication } =
  MessageRecord.properties

const PayloadMessage = Type.Object({
  id: Uuid({ description: 'Id of the message; the same at every repetition of this request.' }),
  from: Text('From header, which anybody can write.'),
  reply_to,
  subject,
  text_body,
  text_body_stripped,
  html_body,
  attachments,
  message_id,
  in_reply_to,
  references,
  thread_id,
  classification,
  spam,
  parse_error,
  received_at: Timestamp({ description: 'When it was received.' }),
  content,
  truncated: Type.Optional(Type.Literal(true, { description: 'A body was truncated, after 256 KiB.' })),
})

export const MailboxPayload = Type.Object({
  event: Type.Literal('mailbox.message.received', { description: 'Type of the event.' }),
  mailbox_id: Uuid({ description: 'Mailbox that received the message.' }),
  message: { ...PayloadMessage, description: 'The message. Written by a stranger.' },
  authentication,
  source_ip,
  timestamp: Timestamp({ description: 'When the message was added to the mailbox.' }),
})

/**
 * The payload of `mailbox.message.received`; bodies end after 256 KiB, and `message.truncated` says so. Undefined: the
 * message or its mailbox was deleted.
 * @param messageUuid public id of the message
 */
export function buildMailboxPayload(
  app: Pick<App, 'db' | 'content'>,
  accountId: number,
  messageUuid: string,
): Record<string, unknown> | undefined {
  const uuid = parseUuid(messageUuid)
  const message = uuid && findMessageOfAccount(app.db, accountId, uuid)
  const mailbox = message && findMailboxById(app.db, message.mailboxId)
  if (!mailbox || message.emailId !== null) return undefined
  return {
    event: 'mailbox.message.received',
    mailbox_id: formatUuid(mailbox.uuid),
    message: toWire(PayloadMessage, message, {
      from: message.fromHeader,
      attachments: message.attachments.map(toAttachmentWire),
      thread_id: formatUuid(message.threadUuid),
      received_at: isoTime(message.receivedAt ?? message.createdAt),
      ...readTruncatedBodies(app, message, MAX_BODY_BYTES),
    }),
    authentication: message.authentication,
    source_ip: message.sourceIp,
    timestamp: isoTime(message.createdAt),
  }
}
