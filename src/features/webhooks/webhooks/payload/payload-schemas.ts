/**
 * @module The schemas of what webhooks post, for the API description: for each format its events, or its names of them.
 * `payload.ts` builds the payloads; tests hold them against these schemas.
 */
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { MailboxPayload } from '#features/receiving/agent-mailboxes/payload.ts'
import { INBOUND_PAYLOAD_FIELDS } from '#features/receiving/inbound/api/model.ts'
import { InsightRecord } from '#features/reporting/insights/model.ts'
import { Nullable, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { TEST_EVENT, WebhookEvent } from '../event-names.ts'
import type { PayloadFormat, POSTMARK_RECORD_TYPES, RESEND_EVENTS } from './payload-format.ts'

const text = (description: string) => Type.String({ description })
const textOrNull = (description: string) => Nullable(Type.String(), { description })
const textMap = (description: string) => Type.Record(Type.String(), Type.String(), { description })

const named = (event: string, fields: TProperties) =>
  Type.Object({ event: Type.Literal(event, { description: 'Type of the event.' }), ...fields })

const HEAD_FIELDS = {
  event_id: Uuid({ description: 'Id of the event; the same at every repetition of this request.' }),
  account_id: Uuid({ description: 'Your account.' }),
  timestamp: Timestamp({ description: 'When the event happened.' }),
}

const EMAIL_FIELDS = {
  ...HEAD_FIELDS,
  email_id: Uuid({ description: 'Email of the event.' }),
  recipient: textOrNull('Recipient of the event; null when it concerns all recipients.'),
  tags: Type.Array(Type.String(), { description: 'Tags of the email.' }),
  metadata: Type.Record(Type.String(), Type.Unknown(), { description: 'Your own data about the email.' }),
  sandbox: Type.Optional(
    Type.Literal(true, { description: 'Present when the email was only captured or simulated, and reached nobody.' }),
  ),
}

const OUTCOME_FIELDS = {
  ...EMAIL_FIELDS,
  from: text('From header.'),
  to: text('To addresses, separated by ", ".'),
  subject: text('Subject.'),
  domain: text('Domain of the sender.'),
  smtp_response: text('Reply of the receiving server; empty: there was none.'),
  ip_address: text('Our address in the session; empty: there was no session.'),
}

const RULE = Type.Optional(text('Id of the rule that decided what the reply, or its lack, means.'))
const REASON_FIELDS = { ...OUTCOME_FIELDS, reason: text('Why, as a sentence.') }

const DOMAIN_FIELDS = {
  ...HEAD_FIELDS,
  domain_id: Uuid({ description: 'The domain.' }),
  domain: text('Its name.'),
  lost_records: Type.Array(Type.String(), {
    description: 'The records that are or were missing: spf, dkim, return_path.',
  }),
}
const LOST_FIELDS = {
  ...DOMAIN_FIELDS,
  sends_until: Timestamp({ description: 'Until when the domain can send without its records.' }),
}

const OWN: Readonly<Record<WebhookEvent | typeof TEST_EVENT, TSchema>> = {
  sent: named('sent', {
    ...OUTCOME_FIELDS,
    smtp_response: Type.Null({ description: 'Always null; `delivered` has it.' }),
    ip_address: Type.Null({ description: 'Always null; `delivered` has it.' }),
  }),
  delivered: named('delivered', OUTCOME_FIELDS),
  deferred: named('deferred', {
    ...EMAIL_FIELDS,
    reason: text('Why, as a sentence.'),
    next_retry_at: Nullable(Timestamp(), { description: 'When the next attempt is due.' }),
    rule: RULE,
  }),
  bounced: named('bounced', {
    ...OUTCOME_FIELDS,
    smtp_response: text('Reply of the receiving server, or what ended the attempts.'),
    bounce_type: textOrNull('hard or soft.'),
    bounce_category: textOrNull('What the reply is about, such as invalid_recipient.'),
    rule: RULE,
  }),
  failed: named('failed', REASON_FIELDS),
  rejected: named('rejected', REASON_FIELDS),
  uncertain: named('uncertain', REASON_FIELDS),
  opened: named('opened', EMAIL_FIELDS),
  clicked: named('clicked', { ...EMAIL_FIELDS, link_url: text('The link.') }),
  complained: named('complained', {
    ...EMAIL_FIELDS,
    to_address: text('First To address of the email.'),
    complainer: text('Address that complained.'),
    feedback_type: text('Type of the report, such as abuse.'),
    original_message_id: text('Message-ID of the email.'),
  }),
  unsubscribed: named('unsubscribed', {
    ...EMAIL_FIELDS,
    to_address: text('Address that unsubscribed.'),
    stream: textOrNull('Stream of the email.'),
    list_id: textOrNull('Contact list of the email.'),
    scope: text('What was stopped: stream, list, or all mail with `transactional: false`.'),
  }),
  'email.inbound': named('email.inbound', { ...HEAD_FIELDS, ...INBOUND_PAYLOAD_FIELDS }),
  'mailbox.message.received': MailboxPayload,
  'account.auto_paused': named('account.auto_paused', {
    ...HEAD_FIELDS,
    source: text('What paused it: reputation, scam_classifier, registration_burst or admin.'),
    reason: text('Why, as a sentence.'),
  }),
  'insights.generated': named('insights.generated', {
    ...HEAD_FIELDS,
    insight_id: Uuid({ description: 'Id of the report.' }),
    summary: InsightRecord.properties.summary,
    findings: InsightRecord.properties.findings,
  }),
  'domain.records_lost': named('domain.records_lost', LOST_FIELDS),
  'domain.records_restored': named('domain.records_restored', DOMAIN_FIELDS),
  'domain.unverified': named('domain.unverified', LOST_FIELDS),
  test: named('test', {
    account_id: HEAD_FIELDS.account_id,
    timestamp: HEAD_FIELDS.timestamp,
    data: Type.Object({ message: text('A sentence.') }, { description: 'What the test says.' }),
  }),
}

const RESEND_FIELDS = {
  created_at: Timestamp({ description: 'When the email was accepted.' }),
  email_id: Uuid({ description: 'Email of the event.' }),
  message_id: text('Message-ID of the email.'),
  from: text('From header.'),
  to: Type.Array(Type.String(), { description: 'The recipient of the event, or all To addresses.' }),
  subject: text('Subject.'),
  tags: textMap('Tags of the email by name.'),
}

const resend = (type: string, more: TProperties = {}, fields: TProperties = RESEND_FIELDS) =>
  Type.Object({
    type: Type.Literal(type, { description: 'Type of the event.' }),
    created_at: Timestamp({ description: 'When the event happened.' }),
    data: Type.Object({ ...fields, ...more }, { description: 'The email and the event.' }),
  })

const part = (description: string, fields: TProperties) => Type.Object(fields, { description })

const RECEIVED_FIELDS = {
  email_id: Uuid({ description: 'Id of the inbound email.' }),
  created_at: Timestamp({ description: 'When it was received.' }),
  from: text('From header, which anybody can write.'),
  to: Type.Array(Type.String(), { description: 'Envelope recipients.' }),
  cc: Type.Array(Type.String(), { description: 'Always empty.' }),
  bcc: Type.Array(Type.String(), { description: 'Always empty.' }),
  received_for: Type.Array(Type.String(), { description: 'Envelope recipients.' }),
  message_id: text('Message-ID header; empty: none.'),
  subject: text('Subject; empty: none.'),
  attachments: Type.Array(
    Type.Object({
      id: text('Number of the attachment, from 0.'),
      filename: textOrNull('File name set by the sender.'),
      content_type: text('Set by the sender; not verified.'),
      content_disposition: text('attachment or inline.'),
      content_id: textOrNull('Target of `cid:` in the HTML.'),
    }),
    { description: 'Attachments without their content.' },
  ),
}

const RESEND: Readonly<Record<keyof typeof RESEND_EVENTS | typeof TEST_EVENT, TSchema>> = {
  'email.sent': resend('email.sent'),
  'email.delivered': resend('email.delivered'),
  'email.delivery_delayed': resend('email.delivery_delayed'),
  'email.bounced': resend('email.bounced', {
    bounce: part('How it was rejected.', {
      type: text('Permanent or Transient.'),
      subType: text('Such as NoEmail, MailboxFull or General.'),
      message: text('Reply of the receiving server, or what ended the attempts.'),
    }),
  }),
  'email.failed': resend('email.failed', { failed: part('Why it was not sent.', { reason: text('A sentence.') }) }),
  'email.suppressed': resend('email.suppressed', {
    suppressed: part('Why it was not sent.', {
      type: text('OnAccountSuppressionList.'),
      message: text('Reason of the suppression.'),
    }),
  }),
  'email.opened': resend('email.opened'),
  'email.clicked': resend('email.clicked', {
    click: part('The click.', {
      ipAddress: text('Client address; empty: not stored.'),
      link: text('The link.'),
      timestamp: Timestamp({ description: 'When the event happened.' }),
      userAgent: text('User agent; empty: not stored.'),
    }),
  }),
  'email.complained': resend('email.complained'),
  'email.received': resend('email.received', {}, RECEIVED_FIELDS),
  test: resend('test', {}, { message: text('A sentence.') }),
}

const postmark = (type: string, fields: TProperties) =>
  Type.Object({
    RecordType: Type.Literal(type, { description: 'Type of the event.' }),
    ServerID: Type.Integer({ description: 'Always 1.' }),
    MessageStream: text('Stream of the email; `outbound` is the default one.'),
    MessageID: Uuid({ description: 'Email of the event.' }),
    Tag: text('First tag of the email; empty: none.'),
    Metadata: textMap('Your own data about the email.'),
    ...fields,
  })

const BOUNCE_FIELDS = {
  ID: Type.Integer({ description: 'Position of the event in the feed.' }),
  Type: text('Such as HardBounce, SoftBounce, Transient or SpamComplaint.'),
  TypeCode: Type.Integer({ description: 'Number of the type.' }),
  Name: text('The type in words.'),
  Description: text('The type as a sentence.'),
  Details: text('Reply of the receiving server, or the reason.'),
  Email: text('Address of the recipient.'),
  From: text('From header.'),
  BouncedAt: Timestamp({ description: 'When the event happened.' }),
  DumpAvailable: Type.Boolean({ description: 'Always false.' }),
  Inactive: Type.Boolean({ description: 'Whether the address is suppressed now.' }),
  CanActivate: Type.Boolean({ description: 'Whether the suppression can be removed.' }),
  Subject: text('Subject.'),
}

const CLIENT = Type.Object(
  { Name: text('Always empty.'), Company: text('Always empty.'), Family: text('Always empty.') },
  { description: 'Not derived from what the reader sends.' },
)

const ENGAGEMENT_FIELDS = {
  Recipient: text('Address of the recipient.'),
  ReceivedAt: Timestamp({ description: 'When the event happened.' }),
  UserAgent: text('User agent; empty: not stored.'),
  Platform: text('Always Unknown.'),
  Client: CLIENT,
  OS: CLIENT,
  Geo: Type.Object(
    { IP: Type.Optional(text('Client address; absent: not stored.')) },
    { description: 'Without a place.' },
  ),
}

const POSTMARK: Readonly<Record<(typeof POSTMARK_RECORD_TYPES)[keyof typeof POSTMARK_RECORD_TYPES] | 'Test', TSchema>> =
  {
    Delivery: postmark('Delivery', {
      Recipient: text('Address of the recipient.'),
      DeliveredAt: Timestamp({ description: 'When the event happened.' }),
      Details: text('Reply of the receiving server.'),
    }),
    Bounce: postmark('Bounce', BOUNCE_FIELDS),
    SpamComplaint: postmark('SpamComplaint', BOUNCE_FIELDS),
    Open: postmark('Open', {
      ...ENGAGEMENT_FIELDS,
      FirstOpen: Type.Boolean({ description: 'Whether the recipient had not opened the email before.' }),
      ReadSeconds: Type.Integer({ description: 'Always 0.' }),
    }),
    Click: postmark('Click', {
      ...ENGAGEMENT_FIELDS,
      ClickLocation: text('Always HTML.'),
      OriginalLink: text('The link.'),
    }),
    SubscriptionChange: postmark('SubscriptionChange', {
      Recipient: text('Address that unsubscribed.'),
      ChangedAt: Timestamp({ description: 'When the event happened.' }),
      Origin: text('Always Recipient.'),
      SuppressSending: Type.Boolean({ description: 'Always true.' }),
      SuppressionReason: text('Always ManualSuppression.'),
    }),
    Test: Type.Object({
      RecordType: Type.Literal('Test', { description: 'Type of the event.' }),
      ServerID: Type.Integer({ description: 'Always 1.' }),
      Message: text('A sentence.'),
    }),
  }

/** The schemas of the payloads by format, and by the name that the format has for an event. */
export const PAYLOAD_SCHEMAS: Readonly<Record<PayloadFormat, Readonly<Record<string, TSchema>>>> = {
  tassis: OWN,
  resend: RESEND,
  postmark: POSTMARK,
}

const REQUEST_HEADERS: Readonly<Record<string, string>> = {
  'X-Service-Signature':
    '`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 over `<t>.<body>`, keyed by the secret. By default also as `X-Euromail-Signature`.',
  'X-Service-Event': 'Our name of the event, whatever the format is. By default also as `X-Euromail-Event`.',
  'X-Service-Attempt': 'Number of the attempt, from 1. By default also as `X-Euromail-Attempt`.',
  'webhook-id': 'Id of the event; the same at every repetition. Also as `svix-id`.',
  'webhook-timestamp': 'Unix seconds of the attempt. Also as `svix-timestamp`.',
  'webhook-signature':
    '`v1,<base64>` by each valid secret: HMAC-SHA256 over `<id>.<timestamp>.<body>`, keyed by the decoded part of the secret after `whsec_`. Also as `svix-signature`.',
}

/** The requests of webhooks, for the API description. */
export const describeWebhookRequests = () =>
  Object.entries(PAYLOAD_SCHEMAS).flatMap(([format, schemas]) =>
    Object.entries(schemas).map(([event, body]) => ({
      name: format === 'tassis' ? event : `${format}.${event}`,
      summary: format === 'tassis' ? `Event ${event}` : `Event ${event} in the format ${format}`,
      description:
        'Posted to the URL of your webhook, and received mail also to that of its inbound route. New fields may come at any time; ignore those that you do not know.',
      tags: ['Webhooks'],
      headers: REQUEST_HEADERS,
      body,
    })),
  )
