/**
 * @module Builds the body that a webhook gets for an event of the feed. Uses stored data only, so that every attempt
 * and replay sends the same body. Never signs or sends.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { deriveEventUuid, type EventData, type EventType, toEventType } from '#features/core/events/record.ts'
import { buildMailboxPayload } from '#features/receiving/agent-mailboxes/payload.ts'
import { buildInboundPayload } from '#features/receiving/inbound/api/model.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import type { PayloadFormat } from '../event-names.ts'
import { type EmailEvent, readEmailEvent } from './email-event.ts'
import { toPostmarkPayload } from './postmark.ts'
import { toResendPayload, toResendReceived } from './resend-payload.ts'

interface Row {
  readonly type: number
  readonly at: Millis
  readonly data: string | null
  readonly accountUuid: Uint8Array
}

const sql = prepareStatements((db) => ({
  event: db.prepare<Row, [number, number]>(
    'SELECT type, at, data, accounts.uuid AS accountUuid FROM events JOIN accounts ON accounts.id = events.account_id WHERE events.account_id = ? AND seq = ?',
  ),
  insight: db.prepare<{ summary: string; findings: string }, [number, Uint8Array]>(
    'SELECT summary, findings FROM insights WHERE account_id = ? AND uuid = ?',
  ),
}))

/** An event of the feed as it is stored. */
type StoredEvent = Pick<EmailEvent, 'type' | 'seq' | 'at' | 'data'> & Pick<Row, 'accountUuid'>

/** Fields specific to an event, beyond those of all payloads. */
type Body = Readonly<Record<string, string | null>>

/** The fields of `delivered`: all strings, empty when unknown. */
const toOutcomeBody = (context: EmailEvent): Body => ({
  email_id: context.emailId,
  from: context.from,
  to: context.to().join(', '),
  subject: context.subject,
  domain: domainOfMailbox(context.from),
  smtp_response: context.data.smtp_response ?? '',
  ip_address: context.data.ip_address ?? '',
})

/** Absent for an event that was recorded without a rule, so that its payload never changes. */
const toRuleBody = ({ data }: EmailEvent): Body => (data.rule ? { rule: data.rule } : {})

/** The rejection text is the SMTP reply. Without one, for example after the last retry, it is the stored reason. */
const toBounceBody = (context: EmailEvent): Body => {
  const body = toOutcomeBody(context)
  const { bounce_type = null, bounce_category = null, reason } = context.data
  return {
    ...body,
    smtp_response: body['smtp_response'] || (reason ?? ''),
    bounce_type,
    bounce_category,
    ...toRuleBody(context),
  }
}

const toReasonBody = (context: EmailEvent): Body => ({ ...toOutcomeBody(context), reason: context.data.reason ?? '' })

/** Bodies of the email events that webhooks get; other events are handled elsewhere or not sent. */
const BODIES: { readonly [Type in EventType]?: (context: EmailEvent) => Body } = {
  sent: (context) => ({ ...toOutcomeBody(context), smtp_response: null, ip_address: null }),
  delivered: toOutcomeBody,
  bounced: toBounceBody,
  failed: toReasonBody,
  rejected: toReasonBody,
  uncertain: toReasonBody,
  deferred: (context) => ({
    email_id: context.emailId,
    reason: context.data.reason ?? '',
    next_retry_at: typeof context.data.next_retry_at === 'number' ? isoTime(context.data.next_retry_at) : null,
    ...toRuleBody(context),
  }),
  opened: ({ emailId }) => ({ email_id: emailId }),
  clicked: ({ emailId, data }) => ({ email_id: emailId, link_url: data.link_url ?? '' }),
  // The complainer may be a Cc or Bcc recipient; `to_address` is the first To address of the email, as in its details.
  complained: ({ emailId, recipient, messageId, data, to }) => ({
    email_id: emailId,
    to_address: to()[0] ?? '',
    complainer: data.complainer ?? recipient ?? '',
    feedback_type: data.feedback_type ?? 'other',
    original_message_id: messageId,
  }),
  unsubscribed: ({ emailId, recipient, data }) => ({
    email_id: emailId,
    to_address: recipient ?? '',
    stream: data.stream ?? null,
    list_id: data.list_id ?? null,
    scope: data.scope ?? 'all',
  }),
}

export interface Payload {
  /** Name of the event, one of WEBHOOK_EVENTS. */
  readonly event: string
  readonly body: Record<string, unknown>
}

/**
 * The payload of an account's event; `JSON.stringify` of its body always gives the same bytes. Undefined when the event
 * or its subject was deleted, or when webhooks of this format do not get its type. Throws when a part cannot be read.
 */
export function buildPayload(
  app: App,
  accountId: number,
  seq: number,
  format: PayloadFormat = 'tassis',
): Payload | undefined {
  const row = sql(app.db).event.get(accountId, seq)
  if (!row) return undefined
  const type = toEventType(row.type)
  const event = { ...row, type, seq, data: JSON.parse(row.data ?? '{}') as EventData }
  const body =
    format === 'tassis' ? buildOwnBody(app, accountId, event) : buildForeignBody(app, accountId, event, format)
  return body && { event: type, body }
}

/** The JSON that is posted for a delivery: stored with it, or built from its event; undefined once that is deleted. */
export function readPostedBody(
  app: App,
  { accountId, format }: { readonly accountId: number; readonly format: PayloadFormat },
  { seq, payload = null }: { readonly seq: number | null; readonly payload?: string | null },
): string | undefined {
  if (payload !== null) return payload
  const built = seq === null ? undefined : buildPayload(app, accountId, seq, format)
  return built && JSON.stringify(built.body)
}

/** The body in the form of another provider. */
function buildForeignBody(
  app: App,
  accountId: number,
  event: StoredEvent,
  format: 'resend' | 'postmark',
): Record<string, unknown> | undefined {
  if (event.type === 'email.inbound') {
    const received = buildInboundPayload(app, accountId, event.data.inbound_email_id ?? '')
    return format === 'resend' && received ? toResendReceived(event.at, received) : undefined
  }
  const email = readEmailEvent(app.db, accountId, event)
  return email && (format === 'resend' ? toResendPayload(email) : toPostmarkPayload(accountId, email))
}

function buildOwnBody(app: App, accountId: number, stored: StoredEvent): Record<string, unknown> | undefined {
  const { db, keys } = app
  const { type: event, seq, at, data, accountUuid } = stored
  const head = {
    event,
    event_id: deriveEventUuid(keys, accountId, seq),
    account_id: formatUuid(accountUuid),
    timestamp: isoTime(at),
  }
  if (event === 'email.inbound') {
    const body = buildInboundPayload(app, accountId, data.inbound_email_id ?? '')
    return body && { ...head, ...body }
  }
  if (event === 'insights.generated') {
    const body = readInsight(db, accountId, data.insight_id ?? '')
    return body && { ...head, ...body }
  }
  if (event === 'mailbox.message.received') {
    // The only event without the common fields.
    const body = buildMailboxPayload(app, accountId, data.mailbox_message_id ?? '')
    return body && { event, ...body }
  }
  if (event === 'account.auto_paused') return { ...head, source: data.source ?? 'admin', reason: data.reason ?? '' }
  if (event === 'domain.records_lost' || event === 'domain.records_restored' || event === 'domain.unverified')
    return { ...head, ...data }
  const email = readEmailEvent(db, accountId, stored)
  const body = email && BODIES[event]?.(email)
  if (!body) return undefined
  const { recipient, isSandbox, tags, metadata } = email
  return { ...head, ...body, recipient, tags, metadata, ...(isSandbox && { sandbox: true }) }
}

function readInsight(db: Database, accountId: number, id: string): Record<string, unknown> | undefined {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).insight.get(accountId, uuid)
  return row ? { insight_id: id, summary: row.summary, findings: JSON.parse(row.findings) } : undefined
}

/** The id of a request in Standard Webhooks: that of its event, or of a delivery without one. */
export const toMessageId = (
  keys: KeyRing,
  accountId: number,
  { seq, uuid }: { readonly seq: number | null; readonly uuid: UuidBytes },
): string => (seq === null ? formatUuid(uuid) : deriveEventUuid(keys, accountId, seq))
