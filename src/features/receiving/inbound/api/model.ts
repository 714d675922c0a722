/**
 * @module The wire form of inbound emails, in the API and in `email.inbound`, whose payload is built from stored data,
 * so that every attempt sends the same body. Records on an inbound email whether its webhook accepted it, in the
 * transaction of the delivery outcome.
 */

import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { ContentState } from '#features/core/app/stored-content.ts'
import {
  type AttachmentJson,
  MAX_LISTED_ATTACHMENTS,
  readTruncatedBodies,
  toAttachmentWire,
} from '#features/receiving/received/parts.ts'
import { SPAM_VERDICTS, SpamVerdictOrNull } from '#features/receiving/received/spam.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { KiB, type Millis } from '#platform/units.ts'
import { isForgedResult } from '#protocols/authentication/results-header.ts'
import {
  findInbound,
  INBOUND_STATUSES,
  type InboundEmail,
  inboundStatusCode,
  inboundStatusName,
  readForward,
} from './inbound-emails.ts'

export const InboundAttachment = Type.Object({
  index: S.Count('Number, from 0: the last segment of its content path.'),
  filename: S.TextOrNull('File name set by the sender, without a folder.'),
  content_type: S.Text('Set by the sender; not verified.'),
  size: S.Count('Decoded size in octets.'),
  content_id: S.TextOrNull('Target of `cid:` in the HTML, without angle brackets.'),
  disposition: S.StringEnum(['attachment', 'inline'], { description: '`inline`: shown within the HTML.' }),
})

const STATUS_DESCRIPTION =
  '`received`; `delivered`: the webhook of its route accepted it; `failed`: it could not be parsed; `no_route`: no route matched.'

/** Longer than any address. */
const MAX_SENDER_LENGTH = 320

export const InboundQuery = Type.Object({
  ...S.PAGE_FIELDS,
  status: Type.Optional(S.StringEnum(INBOUND_STATUSES, { description: 'Only mail with this status.' })),
  route_id: Type.Optional(S.Text('Only mail that matched this route.')),
  domain_id: Type.Optional(S.Text('Only mail to this domain.')),
  from: Type.Optional(
    Type.String({
      maxLength: MAX_SENDER_LENGTH,
      description: 'Only mail with this address in From. Case does not matter. Anybody can write any address there.',
    }),
  ),
  spam: Type.Optional(S.StringEnum(SPAM_VERDICTS, { description: 'Only mail with this verdict of rspamd.' })),
  forward: Type.Optional(S.StringEnum(['refused'], { description: 'Only mail with `forward_refused`.' })),
})

export const InboundRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the inbound email.' }),
  account_id: S.Uuid({ description: 'Account of the domain.' }),
  domain_id: S.Uuid({ description: 'Domain of its recipients.' }),
  route_id: S.UuidOrNull('Matched route; null: none, or deleted since.'),
  status: S.StringEnum(INBOUND_STATUSES, { description: STATUS_DESCRIPTION }),
  mail_from: S.Text('Envelope sender; empty for bounces and other automatic mail.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Envelope recipients that matched the route.' }),
  // Typed clients of the interface read these two and raw_size, and refuse null.
  from_address: S.Text('Address of the From header; empty: it has none.'),
  to_addresses: Type.Array(Type.String(), { description: 'Addresses of the To header, at most 100.' }),
  from_header: S.TextOrNull(
    'From header. From, To, Cc and the subject end after 10,000 characters; `raw_headers` is complete.',
  ),
  to_header: S.TextOrNull('To header.'),
  cc_header: S.TextOrNull('Cc header.'),
  subject: S.Text('Decoded; empty if absent.'),
  message_id: S.TextOrNull('With angle brackets.'),
  attachments: Type.Array(InboundAttachment, {
    description: `Attachments without their content; a list shows the first ${MAX_LISTED_ATTACHMENTS} of very many.`,
  }),
  size_bytes: S.Count('Size of the received message in octets.'),
  raw_size: S.Count('Same as size_bytes.'),
  source_ip: S.TextOrNull('IP address of the client.'),
  spf_result: S.TextOrNull('SPF result, as in `authentication`.'),
  authentication: S.extra(
    S.Nullable(Type.Unknown(), {
      description: 'Results of SPF, DKIM, DMARC, ARC and reverse DNS, and `details`.',
    }),
  ),
  spam: S.extra(SpamVerdictOrNull),
  forward_refused: S.extra(
    Type.Boolean({
      description: 'Whether it is not sent on to some address of its route; `forwarded` has the reason.',
    }),
  ),
  error_message: S.TextOrNull('Why it could not be parsed, or why the webhook of its route failed.'),
  webhook_delivered_at: S.TimeOrNull('When the webhook of its route accepted it.'),
  created_at: S.Timestamp({ description: 'When it was processed, shortly after it was received.' }),
  updated_at: S.Timestamp({ description: 'When it last changed.' }),
})

const Forwarded = Type.Object({
  address: S.Text('Address that its route forwards to.'),
  email_id: S.UuidOrNull('Email by which it is sent on; null: none, because it was refused.'),
  status: S.Text('As that of a recipient of the email, or `refused`.'),
  reason: S.TextOrNull('Why it was refused, or the last attempt failed.'),
})

export const InboundDetail = Type.Object({
  ...InboundRecord.properties,
  forwarded: S.extra(
    Type.Array(Forwarded, { description: 'Where it is sent on; without emails past their retention.' }),
  ),
  content: S.extra(ContentState),
  text_body: S.TextOrNull(
    'Plain text as sent, never derived from the HTML. Truncated after 2 MiB; the complete text is then an attachment.',
  ),
  html_body: S.TextOrNull('HTML from an untrusted sender: sanitise it before you show it. Truncated like text_body.'),
  raw_headers: S.Nullable(Type.Record(Type.String(), Type.Unknown()), {
    description: 'Header fields by lower-case name: a string each, or an array of strings for repeated fields.',
  }),
})

export const toInboundAttachmentWire = (
  attachment: AttachmentJson,
  index: number,
): Static<typeof InboundAttachment> => ({
  index,
  ...toAttachmentWire(attachment),
})

const isForwardRefused = (email: InboundEmail): boolean => Object.keys(readForward(email).refused).length > 0

export const toInboundWire = (email: InboundEmail, account_id: string) =>
  toWire(InboundRecord, email, {
    account_id,
    domain_id: formatUuid(email.domainUuid),
    route_id: email.routeUuid === null ? null : formatUuid(email.routeUuid),
    status: inboundStatusName(email.status),
    from_address: email.fromAddress ?? '',
    attachments: email.attachments.map(toInboundAttachmentWire),
    raw_size: email.sizeBytes,
    forward_refused: isForwardRefused(email),
  })

/** What became of an email at the addresses that its route forwards to, as it is now. */
export function toForwardedWire(db: Database, email: InboundEmail): Static<typeof Forwarded>[] {
  const { email: email_id = null, refused } = readForward(email)
  const sent = sql(db).targets.all(parseUuid(email_id ?? '') ?? new Uint8Array(), email.accountId)
  return [
    ...sent.map(({ status, ...target }) => ({ ...target, email_id, status: statusName(status) })),
    ...Object.entries(refused).map(([address, reason]) => ({ address, email_id: null, status: 'refused', reason })),
  ]
}

/** Header fields by name, a repeated one as an array, without forged results of our own (RFC 8601 §5). */
export function toHeadersWire(
  headers: readonly (readonly [name: string, value: string])[],
  hostname: string,
): Record<string, string | string[]> {
  const fields = new Map<string, string | string[]>()
  for (const [name, value] of headers) {
    if (isForgedResult(name, value, hostname)) continue
    const key = name.toLowerCase()
    const earlier = fields.get(key)
    fields.set(key, earlier === undefined ? value : [earlier, value].flat())
  }
  return Object.fromEntries(fields)
}

/** Limit of each body in a payload; `GET /v1/inbound/{id}` returns the complete body. */
const MAX_BODY_BYTES = 256 * KiB

const { text_body, html_body, content, source_ip, mail_from, rcpt_to, message_id, subject, authentication, route_id } =
  InboundDetail.properties

export const INBOUND_PAYLOAD_FIELDS = {
  inbound_email_id: S.Uuid({ description: 'Id of the inbound email; the same at every repetition of this request.' }),
  domain: S.Text('Your domain that received it.'),
  from: S.Text('From header, which anybody can write; without one, the envelope sender.'),
  to: S.Text('To header; without one, the envelope recipients.'),
  subject,
  text_body,
  html_body,
  content,
  truncated: Type.Optional(Type.Literal(true, { description: 'A body was truncated, after 256 KiB.' })),
  attachments: Type.Array(
    Type.Object({
      ...InboundAttachment.properties,
      url: S.Text('URL of its content, for requests with an API key.'),
    }),
    { description: 'Attachments without their content.' },
  ),
  message_id,
  authentication,
  spam: InboundDetail.properties.spam,
  forward_refused: InboundDetail.properties.forward_refused,
  source_ip,
  mail_from,
  rcpt_to,
  route_id,
  error_message: Type.Optional(S.TextOrNull('Why the message could not be parsed; absent otherwise.')),
}

/** The fields of `email.inbound` beyond the common ones; undefined: the account has no such inbound email. */
export function buildInboundPayload(
  app: Pick<App, 'db' | 'content' | 'config'>,
  accountId: number,
  inboundUuid: string,
): Record<string, unknown> | undefined {
  const email = findInbound(app.db, accountId, inboundUuid)
  if (!email) return undefined
  return {
    inbound_email_id: formatUuid(email.uuid),
    domain: email.domain,
    from: email.fromHeader ?? email.mailFrom,
    to: email.toHeader ?? email.rcptTo.join(', '),
    subject: email.subject,
    ...readTruncatedBodies(app, { ...email, strippedRef: null }, MAX_BODY_BYTES),
    attachments: email.attachments.map((attachment, index) => ({
      ...toInboundAttachmentWire(attachment, index),
      url: formatAttachmentUrl(app, email, index),
    })),
    message_id: email.messageId,
    authentication: email.authentication,
    spam: email.spam,
    forward_refused: isForwardRefused(email),
    source_ip: email.sourceIp,
    mail_from: email.mailFrom,
    rcpt_to: email.rcptTo,
    route_id: email.routeUuid === null ? null : formatUuid(email.routeUuid),
    // Only a parse error is sent, because it is permanent. A failure of the route's webhook is not sent: other webhooks
    // receive this payload too.
    ...(inboundStatusName(email.status) === 'failed' && { error_message: email.errorMessage }),
  }
}

/** API URL of an attachment's content; needs an API key. */
const formatAttachmentUrl = ({ config }: Pick<App, 'config'>, { uuid }: InboundEmail, index: number): string =>
  `${config.publicUrl.replace(/(?<!\/)\/+$/, '')}/v1/inbound/${formatUuid(uuid)}/attachments/${index}`

const sql = prepareStatements((db) => ({
  // Null for a corrupt event, so that its delivery can still end.
  inboundId: db.prepare<{ id: string | null }, [number, number]>(
    "SELECT iif(json_valid(data), data ->> 'inbound_email_id', NULL) AS id FROM events WHERE account_id = ? AND seq = ?",
  ),
  targets: db.prepare<{ address: string; status: number; reason: string | null }, [Uint8Array, number]>(
    `SELECT address, r.status, coalesce(last_error, iif(r.delivered_at IS NULL, smtp_response, NULL)) AS reason FROM recipients r
     JOIN emails ON emails.id = email_id WHERE uuid = ? AND account_id = ? ORDER BY r.id`,
  ),
  delivered: db.prepare(
    `UPDATE inbound_emails SET status = CASE status WHEN ?1 THEN ?2 ELSE status END, error_message = CASE status WHEN ?5 THEN error_message END,
     webhook_delivered_at = coalesce(webhook_delivered_at, ?3), updated_at = ?3 WHERE uuid = ?4`,
  ),
  undeliverable: db.prepare(
    'UPDATE inbound_emails SET error_message = coalesce(error_message, ?1), updated_at = ?2 WHERE uuid = ?3 AND webhook_delivered_at IS NULL',
  ),
}))

/** The route's webhook accepted it: `received` becomes `delivered`; an unparsed one stays `failed`. */
export function markInboundDelivered(tx: Tx, accountId: number, seq: number, at: Millis): void {
  const uuid = findInboundUuid(tx, accountId, seq)
  if (uuid)
    sql(tx.db).delivered.run(
      inboundStatusCode('received'),
      inboundStatusCode('delivered'),
      at,
      uuid,
      inboundStatusCode('failed'),
    )
}

/** The route's webhook failed and is not retried. The status stays: the message itself is stored. */
export function markInboundUndeliverable(app: App, tx: Tx, accountId: number, seq: number, error: string): void {
  const uuid = findInboundUuid(tx, accountId, seq)
  if (uuid) sql(tx.db).undeliverable.run(`The webhook of the route failed: ${error}`, app.eventTime(), uuid)
}

function findInboundUuid(tx: Tx, accountId: number, seq: number): Uint8Array | undefined {
  const id = sql(tx.db).inboundId.get(accountId, seq)?.id
  return typeof id === 'string' ? parseUuid(id) : undefined
}
