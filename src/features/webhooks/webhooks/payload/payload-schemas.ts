/**
 * @module The schemas of what webhooks post, for the API description: for each format its events, or its names of them.
 * `payload.ts` builds the payloads; tests hold them against these schemas.
 */
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { MailboxPayload } from '#features/receiving/agent-mailboxes/payload.ts'
import { INBOUND_PAYLOAD_FIELDS } from '#features/receiving/inbound/api/model.ts'
import { InsightRecord } from '#features/reporting/insights/model.ts'
import { Count, Part, Text, TextOrNull, TimeOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { TEST_EVENT, WebhookEvent } from '../event-names.ts'
import type { PayloadFormat, POSTMARK_RECORD_TYPES, RESEND_EVENTS } from './payload-format.ts'

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
  recipient: TextOrNull('Recipient of the event; null when it concerns all recipients.'),
  tags: Type.Array(Type.String(), { description: 'Tags of the email.' }),
  metadata: Type.Record(Type.String(), Type.Unknown(), { description: 'Your own data about the email.' }),
  sandbox: Type.Optional(
    Type.Literal(true, { description: 'Present when the email was only captured or simulated, and reached nobody.' }),
  ),
}

const OUTCOME_FIELDS = {
  ...EMAIL_FIELDS,
  from: Text('From header.'),
  to: Text('To addresses, separated by ", ".'),
  subject: Text('Subject.'),
  domain: Text('Domain of the sender.'),
  smtp_response: Text('Reply of the receiving server; empty: there was none.'),
  ip_address: Text('Our address in the session; empty: there was no session.'),
}

const RULE = Type.Optional(Text('Id of the rule that decided what the reply, or its lack, means.'))
const REASON_FIELDS = { ...OUTCOME_FIELDS, reason: Text('Why, as a sentence.') }

const DOMAIN_FIELDS = {
  ...HEAD_FIELDS,
  domain_id: Uuid({ description: 'The domain.' }),
  domain: Text('Its name.'),
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
    reason: Text('Why, as a sentence.'),
    next_retry_at: TimeOrNull('When the next attempt is due.'),
    rule: RULE,
  }),
  bounced: named('bounced', {
    ...OUTCOME_FIELDS,
    smtp_response: Text('Reply of the receiving server, or what ended the attempts.'),
    bounce_type: TextOrNull('hard or soft.'),
    bounce_category: TextOrNull('What the reply is about, such as invalid_recipient.'),
    rule: RULE,
  }),
  failed: named('failed', REASON_FIELDS),
  rejected: named('rejected', REASON_FIELDS),
  uncertain: named('uncertain', REASON_FIELDS),
  opened: named('opened', EMAIL_FIELDS),
  clicked: named('clicked', { ...EMAIL_FIELDS, link_url: Text('The link.') }),
  complained: named('complained', {
    ...EMAIL_FIELDS,
    to_address: Text('First To address of the email.'),
    complainer: Text('Address that complained.'),
    feedback_type: Text('Type of the report, such as abuse.'),
    original_message_id: Text('Message-ID of the email.'),
  }),
  unsubscribed: named('unsubscribed', {
    ...EMAIL_FIELDS,
    to_address: Text('Address that unsubscribed.'),
    stream: TextOrNull('Stream of the email.'),
    list_id: TextOrNull('Contact list of the email.'),
    scope: Text('What was stopped: stream, list, or all mail with `transactional: false`.'),
  }),
  'email.inbound': named('email.inbound', { ...HEAD_FIELDS, ...INBOUND_PAYLOAD_FIELDS }),
  'mailbox.message.received': MailboxPayload,
  'account.auto_paused': named('account.auto_paused', {
    ...HEAD_FIELDS,
    source: Text('What paused it: reputation, scam_classifier, registration_burst or admin.'),
    reason: Text('Why, as a sentence.'),
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
    data: Part('What the test says.', { message: Text('A sentence.') }),
  }),
}

const RESEND_FIELDS = {
  created_at: Timestamp({ description: 'When the email was accepted.' }),
  email_id: Uuid({ description: 'Email of the event.' }),
  message_id: Text('Message-ID of the email.'),
  from: Text('From header.'),
  to: Type.Array(Type.String(), { description: 'The recipient of the event, or all To addresses.' }),
  subject: Text('Subject.'),
  tags: textMap('Tags of the email by name.'),
}

const resend = (type: string, more: TProperties = {}, fields: TProperties = RESEND_FIELDS) =>
  Type.Object({
    type: Type.Literal(type, { description: 'Type of the event.' }),
    created_at: Timestamp({ description: 'When the event happened.' }),
    data: Part('The email and the event.', { ...fields, ...more }),
  })

const RECEIVED_FIELDS = {
  email_id: Uuid({ description: 'Id of the inbound email.' }),
  created_at: Timestamp({ description: 'When it was received.' }),
  from: Text('From header, which anybody can write.'),
  to: Type.Array(Type.String(), { description: 'Envelope recipients.' }),
  cc: Type.Array(Type.String(), { description: 'Always empty.' }),
  bcc: Type.Array(Type.String(), { description: 'Always empty.' }),
  received_for: Type.Array(Type.String(), { description: 'Envelope recipients.' }),
  message_id: Text('Message-ID header; empty: none.'),
  subject: Text('Subject; empty: none.'),
  attachments: Type.Array(
    Type.Object({
      id: Text('Number of the attachment, from 0.'),
      filename: TextOrNull('File name set by the sender.'),
      content_type: Text('Set by the sender; not verified.'),
      content_disposition: Text('attachment or inline.'),
      content_id: TextOrNull('Target of `cid:` in the HTML.'),
    }),
    { description: 'Attachments without their content.' },
  ),
}

const RESEND: Readonly<Record<keyof typeof RESEND_EVENTS | typeof TEST_EVENT, TSchema>> = {
  'email.sent': resend('email.sent'),
  'email.delivered': resend('email.delivered'),
  'email.delivery_delayed': resend('email.delivery_delayed'),
  'email.bounced': resend('email.bounced', {
    bounce: Part('How it was rejected.', {
      type: Text('Permanent or Transient.'),
      subType: Text('Such as NoEmail, MailboxFull or General.'),
      message: Text('Reply of the receiving server, or what ended the attempts.'),
    }),
  }),
  'email.failed': resend('email.failed', { failed: Part('Why it was not sent.', { reason: Text('A sentence.') }) }),
  'email.suppressed': resend('email.suppressed', {
    suppressed: Part('Why it was not sent.', {
      type: Text('OnAccountSuppressionList.'),
      message: Text('Reason of the suppression.'),
    }),
  }),
  'email.opened': resend('email.opened'),
  'email.clicked': resend('email.clicked', {
    click: Part('The click.', {
      ipAddress: Text('Client address; empty: not stored.'),
      link: Text('The link.'),
      timestamp: Timestamp({ description: 'When the event happened.' }),
      userAgent: Text('User agent; empty: not stored.'),
    }),
  }),
  'email.complained': resend('email.complained'),
  'email.received': resend('email.received', {}, RECEIVED_FIELDS),
  test: resend('test', {}, { message: Text('A sentence.') }),
}

const postmark = (type: string, fields: TProperties) =>
  Type.Object({
    RecordType: Type.Literal(type, { description: 'Type of the event.' }),
    ServerID: Count('Always 1.'),
    MessageStream: Text('Stream of the email; `outbound` is the default one.'),
    MessageID: Uuid({ description: 'Email of the event.' }),
    Tag: Text('First tag of the email; empty: none.'),
    Metadata: textMap('Your own data about the email.'),
    ...fields,
  })

const BOUNCE_FIELDS = {
  ID: Count('Position of the event in the feed.'),
  Type: Text('Such as HardBounce, SoftBounce, Transient or SpamComplaint.'),
  TypeCode: Count('Number of the type.'),
  Name: Text('The type in words.'),
  Description: Text('The type as a sentence.'),
  Details: Text('Reply of the receiving server, or the reason.'),
  Email: Text('Address of the recipient.'),
  From: Text('From header.'),
  BouncedAt: Timestamp({ description: 'When the event happened.' }),
  DumpAvailable: Type.Boolean({ description: 'Always false.' }),
  Inactive: Type.Boolean({ description: 'Whether the address is suppressed now.' }),
  CanActivate: Type.Boolean({ description: 'Whether the suppression can be removed.' }),
  Subject: Text('Subject.'),
}

const CLIENT = Part('Not derived from what the reader sends.', {
  Name: Text('Always empty.'),
  Company: Text('Always empty.'),
  Family: Text('Always empty.'),
})

const ENGAGEMENT_FIELDS = {
  Recipient: Text('Address of the recipient.'),
  ReceivedAt: Timestamp({ description: 'When the event happened.' }),
  UserAgent: Text('User agent; empty: not stored.'),
  Platform: Text('Always Unknown.'),
  Client: CLIENT,
  OS: CLIENT,
  Geo: Part('Without a place.', { IP: Type.Optional(Text('Client address; absent: not stored.')) }),
}

const POSTMARK: Readonly<Record<(typeof POSTMARK_RECORD_TYPES)[keyof typeof POSTMARK_RECORD_TYPES] | 'Test', TSchema>> =
  {
    Delivery: postmark('Delivery', {
      Recipient: Text('Address of the recipient.'),
      DeliveredAt: Timestamp({ description: 'When the event happened.' }),
      Details: Text('Reply of the receiving server.'),
    }),
    Bounce: postmark('Bounce', BOUNCE_FIELDS),
    SpamComplaint: postmark('SpamComplaint', BOUNCE_FIELDS),
    Open: postmark('Open', {
      ...ENGAGEMENT_FIELDS,
      FirstOpen: Type.Boolean({ description: 'Whether the recipient had not opened the email before.' }),
      ReadSeconds: Count('Always 0.'),
    }),
    Click: postmark('Click', {
      ...ENGAGEMENT_FIELDS,
      ClickLocation: Text('Always HTML.'),
      OriginalLink: Text('The link.'),
    }),
    SubscriptionChange: postmark('SubscriptionChange', {
      Recipient: Text('Address that unsubscribed.'),
      ChangedAt: Timestamp({ description: 'When the event happened.' }),
      Origin: Text('Always Recipient.'),
      SuppressSending: Type.Boolean({ description: 'Always true.' }),
      SuppressionReason: Text('Always ManualSuppression.'),
    }),
    Test: Type.Object({
      RecordType: Type.Literal('Test', { description: 'Type of the event.' }),
      ServerID: Count('Always 1.'),
      Message: Text('A sentence.'),
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
