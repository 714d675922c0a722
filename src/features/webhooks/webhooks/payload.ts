/**
 * @module Builds the body that a webhook gets for an event of the feed. Uses stored data only, so that every attempt
 * and replay sends the same body. Never signs or sends.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { deriveEventUuid, type EventData, type EventType, toEventType } from '#features/core/events/record.ts'
import { buildMailboxPayload } from '#features/receiving/agent-mailboxes/payload.ts'
import { buildInboundPayload } from '#features/receiving/inbound/webhook.ts'
import { messageIdOf } from '#features/sending/queue/names.ts'
import { recipientKindCode } from '#features/sending/queue/status.ts'
import type { Millis } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'

/** An event and its account. */
interface Row {
  readonly type: number
  readonly at: Millis
  readonly data: string | null
  readonly accountUuid: Uint8Array
}

/** The email of an event, and its recipient. */
interface EmailRow {
  readonly emailId: number
  readonly emailUuid: Uint8Array
  readonly from: string
  /** Set by the client; null: derived. */
  readonly messageId: string | null
  readonly subject: string
  readonly sandbox: number
  readonly recipient: string | null
}

const sql = prepareStatements((db) => ({
  event: db.prepare<Row, [number, number]>(
    'SELECT type, at, data, accounts.uuid AS accountUuid FROM events JOIN accounts ON accounts.id = events.account_id WHERE events.account_id = ? AND seq = ?',
  ),
  email: db.prepare<EmailRow, [number, number]>(
    `SELECT emails.id AS emailId, emails.uuid AS emailUuid, from_address AS "from", subject, sandbox, address AS recipient,
     extra ->> '$.message_id' AS messageId
     FROM events JOIN emails ON emails.id = events.email_id LEFT JOIN recipients ON recipients.id = recipient_id
     WHERE events.account_id = ? AND seq = ?`,
  ),
  insight: db.prepare<{ summary: string; findings: string }, [number, Uint8Array]>(
    'SELECT summary, findings FROM insights WHERE account_id = ? AND uuid = ?',
  ),
  toAddresses: db.prepare<{ address: string }, [number]>(
    `SELECT address FROM recipients WHERE email_id = ? AND kind = ${recipientKindCode('to')} ORDER BY id`,
  ),
}))

/** The data from which a body is built. */
interface EventContext {
  readonly emailId: string
  /** From header, as the API returns it. */
  readonly from: string
  readonly subject: string
  readonly messageId: string
  readonly recipient: string | null
  readonly data: EventData
  /** The To addresses in order. */
  to(): readonly string[]
}

/** Fields specific to an event, beyond those of all payloads. */
type Body = Readonly<Record<string, string | null>>

/** The fields of `delivered`: all strings, empty when unknown. */
const toOutcomeBody = (context: EventContext): Body => ({
  email_id: context.emailId,
  from: context.from,
  to: context.to().join(', '),
  subject: context.subject,
  domain: domainOfMailbox(context.from),
  smtp_response: context.data.smtp_response ?? '',
  ip_address: context.data.ip_address ?? '',
})

/** Missing in events that were recorded before there were rules, so that a payload never changes. */
const toRuleBody = ({ data }: EventContext): Body => (data.rule ? { rule: data.rule } : {})

/** The rejection text is the SMTP reply. Without one, for example after the last retry, it is the stored reason. */
const toBounceBody = (context: EventContext): Body => {
  const body = toOutcomeBody(context)
  return { ...body, smtp_response: body['smtp_response'] || (context.data.reason ?? ''), ...toRuleBody(context) }
}

const toReasonBody = (context: EventContext): Body => ({ ...toOutcomeBody(context), reason: context.data.reason ?? '' })

/** Bodies of the email events that webhooks get; other events are handled elsewhere or not sent. */
const BODIES: { readonly [Type in EventType]?: (context: EventContext) => Body } = {
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
 * or its subject was deleted, or when webhooks do not get its type. Throws when a part cannot be read.
 */
export function buildPayload(app: App, accountId: number, seq: number): Payload | undefined {
  const { db, keys } = app
  const row = sql(db).event.get(accountId, seq)
  if (!row) return undefined
  const event = toEventType(row.type)
  const data = JSON.parse(row.data ?? '{}') as EventData
  const head = {
    event,
    event_id: deriveEventUuid(keys, accountId, seq),
    account_id: formatUuid(row.accountUuid),
    timestamp: isoTime(row.at),
  }
  if (event === 'email.inbound') {
    const body = buildInboundPayload(app, accountId, data.inbound_email_id ?? '')
    return body && { event, body: { ...head, ...body } }
  }
  if (event === 'insights.generated') {
    const body = readInsight(db, accountId, data.insight_id ?? '')
    return body && { event, body: { ...head, ...body } }
  }
  if (event === 'mailbox.message.received') {
    // The only event without the common fields.
    const body = buildMailboxPayload(app, accountId, data.mailbox_message_id ?? '')
    return body && { event, body: { event, ...body } }
  }
  if (event === 'account.auto_paused')
    return { event, body: { ...head, source: data.source ?? 'admin', reason: data.reason ?? '' } }
  if (event === 'domain.records_lost' || event === 'domain.records_restored' || event === 'domain.unverified')
    return { event, body: { ...head, ...data } }
  const email = sql(db).email.get(accountId, seq)
  const body = email && BODIES[event]?.(toEventContext(db, email, data))
  if (!body) return undefined
  return {
    event,
    body: { ...head, ...body, recipient: email.recipient, ...(email.sandbox === 1 && { sandbox: true }) },
  }
}

function readInsight(db: Database, accountId: number, id: string): Record<string, unknown> | undefined {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).insight.get(accountId, uuid)
  return row ? { insight_id: id, summary: row.summary, findings: JSON.parse(row.findings) } : undefined
}

const toEventContext = (db: Database, row: EmailRow, data: EventData): EventContext => ({
  emailId: formatUuid(row.emailUuid),
  from: row.from,
  subject: row.subject,
  messageId: messageIdOf(row.emailUuid, row.from, row.messageId),
  recipient: row.recipient,
  data,
  to: () =>
    sql(db)
      .toAddresses.all(row.emailId)
      .map(({ address }) => address),
})
