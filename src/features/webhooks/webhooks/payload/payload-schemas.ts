/**
 * @module The schemas of what webhooks post in our own format, for the API description. `payload.ts` builds the payloads;
 * tests hold them against these schemas. Resend and Postmark describe their formats themselves.
 */
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { MailboxPayload } from '#features/receiving/agent-mailboxes/payload.ts'
import { INBOUND_PAYLOAD_FIELDS } from '#features/receiving/inbound/api/model.ts'
import { InsightRecord } from '#features/reporting/insights/insights.ts'
import { Part, Text, TextOrNull, TimeOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { TEST_EVENT, WebhookEvent } from '../event-names.ts'

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

const PAYLOAD_SCHEMAS: Readonly<Record<WebhookEvent | typeof TEST_EVENT, TSchema>> = {
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
  Object.entries(PAYLOAD_SCHEMAS).map(([event, body]) => ({
    name: event,
    summary: `Event ${event}`,
    description:
      'Posted to the URL of your webhook, and received mail also to that of its inbound route. New fields may come at any time; ignore those that you do not know.',
    tags: ['Webhooks'],
    headers: REQUEST_HEADERS,
    body,
  }))
