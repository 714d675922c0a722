/** @module What webhooks are told of an inbound email. Made of what is stored, so that every attempt sends the same body. */
import type { App } from '#features/core/app/app.ts'
import { contentState, createBodyReader } from '#features/core/app/stored-content.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { findInbound, type InboundEmail } from './inbound-emails.ts'
import { inboundAttachmentWire } from './model.ts'
import { inboundStatusName } from './status.ts'

/** A body is cut here in a payload; `GET /v1/inbound/{id}` has all of it. */
const MOST_BODY_CHARACTERS = 256 * KiB

/**
 * The fields of `email.inbound` beyond those that every payload has; undefined when the account has no such inbound email (any more).
 * @param inboundUuid public id, as text
 */
export function inboundPayload(
  app: Pick<App, 'db' | 'content' | 'config'>,
  accountId: number,
  inboundUuid: string,
): Record<string, unknown> | undefined {
  const email = findInbound(app.db, accountId, inboundUuid)
  if (!email) return undefined
  const bodies = createBodyReader(app)
  const text = cut(bodies.read(email.textRef))
  const html = cut(bodies.read(email.htmlRef))
  return {
    inbound_email_id: formatUuid(email.uuid),
    domain: email.domain,
    from: email.fromHeader ?? email.mailFrom,
    to: email.toHeader ?? email.rcptTo.join(', '),
    subject: email.subject,
    text_body: text.body,
    html_body: html.body,
    ...contentState(bodies.isMissing),
    ...((text.isCut || html.isCut) && { truncated: true }),
    attachments: email.attachments.map((attachment, index) => ({
      ...inboundAttachmentWire(attachment, index),
      url: attachmentUrl(app, email, index),
    })),
    message_id: email.messageId,
    authentication: email.authentication,
    source_ip: email.sourceIp,
    mail_from: email.mailFrom,
    rcpt_to: email.rcptTo,
    route_id: email.routeUuid === null ? null : formatUuid(email.routeUuid),
    // Why it could not be parsed, which stays; what became of the route's webhook is no part of what every webhook is told.
    ...(inboundStatusName(email.status) === 'failed' && { error_message: email.errorMessage }),
  }
}

/** Where the API gives an attachment's content, to whoever has a key. */
const attachmentUrl = ({ config }: Pick<App, 'config'>, { uuid }: InboundEmail, index: number): string =>
  `${config.publicUrl.replace(/(?<!\/)\/+$/, '')}/v1/inbound/${formatUuid(uuid)}/attachments/${index}`

function cut(body: string | null): { readonly body: string | null; readonly isCut: boolean } {
  if (body === null || body.length <= MOST_BODY_CHARACTERS) return { body, isCut: false }
  // Not between the halves of a character.
  return { body: body.slice(0, MOST_BODY_CHARACTERS).toWellFormed(), isCut: true }
}
