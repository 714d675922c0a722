/**
 * @module Builds the payload of `email.inbound` from stored data, so that every attempt sends the same body, and
 * records on the inbound email whether its webhook accepted it, in the transaction of the delivery outcome.
 */
import { Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { createBodyReader, toContentState } from '#features/core/app/stored-content.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { Nullable, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { KiB } from '#platform/units.ts'
import { findInbound, type InboundEmail } from './inbound-emails.ts'
import { InboundAttachment, InboundDetail, toInboundAttachmentWire } from './model.ts'
import { inboundStatusCode, inboundStatusName } from './status.ts'

/** Longer bodies are truncated in a payload; `GET /v1/inbound/{id}` returns the complete body. */
const MAX_BODY_LENGTH = 256 * KiB

const { text_body, html_body, content, source_ip, mail_from, rcpt_to, message_id, subject, authentication, route_id } =
  InboundDetail.properties

/** The fields that `buildInboundPayload` returns. */
export const INBOUND_PAYLOAD_FIELDS = {
  inbound_email_id: Uuid({ description: 'Id of the inbound email; the same at every repetition of this request.' }),
  domain: Type.String({ description: 'Your domain that received it.' }),
  from: Type.String({ description: 'From header, which anybody can write; without one, the envelope sender.' }),
  to: Type.String({ description: 'To header; without one, the envelope recipients.' }),
  subject,
  text_body,
  html_body,
  content,
  truncated: Type.Optional(Type.Literal(true, { description: 'A body was truncated, after 256 KiB.' })),
  attachments: Type.Array(
    Type.Object({
      ...InboundAttachment.properties,
      url: Type.String({ description: 'URL of its content, for requests with an API key.' }),
    }),
    { description: 'Attachments without their content.' },
  ),
  message_id,
  authentication,
  source_ip,
  mail_from,
  rcpt_to,
  route_id,
  error_message: Type.Optional(
    Nullable(Type.String(), { description: 'Why the message could not be parsed; absent otherwise.' }),
  ),
}

/**
 * The fields of `email.inbound` beyond the common ones; undefined: the account has no such inbound email.
 * @param inboundUuid public id, as text
 */
export function buildInboundPayload(
  app: Pick<App, 'db' | 'content' | 'config'>,
  accountId: number,
  inboundUuid: string,
): Record<string, unknown> | undefined {
  const email = findInbound(app.db, accountId, inboundUuid)
  if (!email) return undefined
  const bodies = createBodyReader(app)
  const text = truncateBody(bodies.read(email.textRef))
  const html = truncateBody(bodies.read(email.htmlRef))
  return {
    inbound_email_id: formatUuid(email.uuid),
    domain: email.domain,
    from: email.fromHeader ?? email.mailFrom,
    to: email.toHeader ?? email.rcptTo.join(', '),
    subject: email.subject,
    text_body: text.body,
    html_body: html.body,
    ...toContentState(bodies.isMissing),
    ...((text.isTruncated || html.isTruncated) && { truncated: true }),
    attachments: email.attachments.map((attachment, index) => ({
      ...toInboundAttachmentWire(attachment, index),
      url: formatAttachmentUrl(app, email, index),
    })),
    message_id: email.messageId,
    authentication: email.authentication,
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

function truncateBody(body: string | null): { readonly body: string | null; readonly isTruncated: boolean } {
  if (body === null || body.length <= MAX_BODY_LENGTH) return { body, isTruncated: false }
  // Never splits a character.
  return { body: body.slice(0, MAX_BODY_LENGTH).toWellFormed(), isTruncated: true }
}

const sql = prepareStatements((db) => ({
  // Null for a corrupt event, so that its delivery can still end.
  inboundId: db.prepare<{ id: string | null }, [number, number]>(
    "SELECT iif(json_valid(data), data ->> 'inbound_email_id', NULL) AS id FROM events WHERE account_id = ? AND seq = ?",
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
export function markInboundDelivered(_app: App, tx: Tx, accountId: number, seq: number, at: Millis): void {
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
