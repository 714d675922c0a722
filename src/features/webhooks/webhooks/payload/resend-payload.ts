/** @module The payloads of a webhook with the format `resend`, as the types of its client describe them. Pure. */
import { isoTime } from '#platform/http/envelope.ts'
import { RESEND_NAMES } from '../event-names.ts'
import type { EmailEvent } from './email-event.ts'

/** The `subType` of a bounce for our categories; `General` for all others. */
const BOUNCE_SUB_TYPES: ReadonlyMap<string, string> = new Map([
  ['invalid_recipient', 'NoEmail'],
  ['mailbox_full', 'MailboxFull'],
  ['message_too_large', 'MessageTooLarge'],
  ['spam_content', 'ContentRejected'],
])

/** Undefined for an event that Resend does not have. */
export function toResendPayload(event: EmailEvent): Record<string, unknown> | undefined {
  const type = RESEND_NAMES.get(event.type)
  return type === undefined
    ? undefined
    : { type, created_at: isoTime(event.at), data: { ...toData(event), ...toMore(event) } }
}

/** The fields of all email events. An event about one recipient names that recipient alone in `to`. */
const toData = ({ emailCreatedAt, emailId, messageId, from, recipient, to, subject, tags }: EmailEvent) => ({
  created_at: isoTime(emailCreatedAt),
  email_id: emailId,
  message_id: messageId,
  from,
  to: recipient === null ? to() : [recipient],
  subject,
  tags: Object.fromEntries(tags.map(splitTag)),
})

/** A tag of Resend, a name with a value, is stored as `name:value`. One of ours without a colon gets an empty value. */
export function splitTag(tag: string): [name: string, value: string] {
  const colon = tag.indexOf(':')
  return colon === -1 ? [tag, ''] : [tag.slice(0, colon), tag.slice(colon + 1)]
}

function toMore({ type, at, data }: EmailEvent): Record<string, unknown> {
  if (type === 'bounced')
    return {
      bounce: {
        type: data.bounce_type === 'hard' ? 'Permanent' : 'Transient',
        subType: BOUNCE_SUB_TYPES.get(data.bounce_category ?? '') ?? 'General',
        message: data.smtp_response ?? data.reason ?? '',
      },
    }
  if (type === 'clicked')
    return {
      click: {
        ipAddress: data.ip_address ?? '',
        link: data.link_url ?? '',
        timestamp: isoTime(at),
        userAgent: data.user_agent ?? '',
      },
    }
  if (type === 'failed') return { failed: { reason: data.reason ?? '' } }
  if (type === 'rejected')
    return {
      suppressed: {
        type: 'OnAccountSuppressionList',
        message: data.suppression ?? data.reason ?? '',
      },
    }
  return {}
}

/** The payload of received mail, from the fields of `email.inbound`. */
export function toResendReceived(at: number, received: Record<string, unknown>): Record<string, unknown> {
  const attachments = received['attachments'] as readonly Readonly<Record<string, unknown>>[]
  const recipients = received['rcpt_to']
  return {
    type: 'email.received',
    created_at: isoTime(at),
    data: {
      email_id: received['inbound_email_id'],
      created_at: isoTime(at),
      from: received['from'],
      to: recipients,
      cc: [],
      bcc: [],
      received_for: recipients,
      message_id: received['message_id'] ?? '',
      subject: received['subject'] ?? '',
      attachments: attachments.map((attachment, index) => ({
        id: String(index),
        filename: attachment['filename'] ?? null,
        content_type: attachment['content_type'],
        content_disposition: attachment['disposition'] ?? 'attachment',
        content_id: attachment['content_id'] ?? null,
      })),
    },
  }
}
