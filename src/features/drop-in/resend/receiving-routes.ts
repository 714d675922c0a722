/** @module Received emails: read, list. */
import type { App } from '#features/core/app/app.ts'
import { createBodyReader, readStoredContent } from '#features/core/app/stored-content.ts'
import * as inbound from '#features/receiving/inbound/api/inbound-emails.ts'
import { toHeadersWire } from '#features/receiving/inbound/api/model.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { embedPictures, type InlinePicture, MAX_PICTURE_BYTES } from '#protocols/mime/inline-pictures.ts'
import { toFileWire } from './attachment-routes.ts'
import { toMailboxes } from './email-routes.ts'
import { pageOfRows } from './list.ts'
import { on } from './route.ts'

export const receivingRoutes = [
  on('GET /emails/receiving', 'inbound:read', (call) =>
    pageOfRows(
      call,
      'inbound_emails',
      inbound.findInbound,
      (db, owner, window) => inbound.listInbound(db, owner, {}, window).emails,
      toListedReceived,
    ),
  ),
  on('GET /emails/receiving/:id', 'inbound:read', ({ app, accountId, id, query }) => {
    const format = query['html_format'] ?? 'data_uri'
    if (format !== 'data_uri' && format !== 'cid') throw invalid('html_format', 'html_format must be data_uri or cid.')
    return toReceivedDetail(app, inbound.getInbound(app.db, accountId, id), format)
  }),
]

export const toListedReceived = (email: inbound.InboundEmail) => ({
  id: formatUuid(email.uuid),
  to: toMailboxes(email.toHeader),
  from: email.fromHeader ?? email.fromAddress ?? '',
  created_at: isoTime(email.createdAt),
  subject: email.subject,
  // A received message does not show who else got a blind copy.
  bcc: [] as string[],
  cc: toMailboxes(email.ccHeader),
  reply_to: null as string[] | null,
  received_for: [...email.rcptTo],
  message_id: email.messageId ?? '',
  attachments: email.attachments.map((file, index) => ({
    id: String(index),
    filename: file.filename,
    size: file.size,
    content_type: file.content_type,
    content_id: file.content_id ?? null,
    content_disposition: file.disposition ?? 'attachment',
  })),
})

/** Whether the HTML keeps its references to pictures, or has the pictures themselves. */
type HtmlFormat = 'cid' | 'data_uri'

export function toReceivedDetail(app: App, email: inbound.InboundEmail, format: HtmlFormat) {
  const bodies = createBodyReader(app)
  const [headersJson, text, html] = [email.headersRef, email.textRef, email.htmlRef].map(bodies.read)
  const headers =
    headersJson == null ? null : toHeadersWire(JSON.parse(headersJson) as [string, string][], app.config.hostname)
  const replyTo = headers?.['reply-to']
  return {
    object: 'email' as const,
    ...toListedReceived(email),
    reply_to: replyTo === undefined ? null : toMailboxes([replyTo].flat()[0]),
    html: html == null ? null : format === 'cid' ? html : embedPictures(html, readPictures(app, email, html)),
    text: text ?? null,
    headers:
      headers && Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')])),
    raw: isRawKept(app, email)
      ? toFileWire(app, { kind: 'raw', accountId: email.accountId, uuid: email.uuid, index: 0 })
      : null,
  }
}

/** The pictures that the HTML may refer to; not those that are too large to be put into it. */
function readPictures({ content }: App, { attachments }: inbound.InboundEmail, html: string): InlinePicture[] {
  if (!/cid:/i.test(html)) return []
  let bytes = 0
  return attachments.flatMap(({ content_id: contentId, content_type: contentType, size, ref }) => {
    if (contentId == null || bytes + size > MAX_PICTURE_BYTES || !content.has(ref)) return []
    bytes += size
    return [{ contentId, contentType, content: readStoredContent(() => content.get(ref)) }]
  })
}

const isRawKept = ({ clock, config }: App, { receivedAt }: inbound.InboundEmail): boolean =>
  clock.now() - receivedAt <= days(config.inboundRawDays)
