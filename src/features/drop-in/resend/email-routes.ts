/** @module Emails that were sent: read, list, reschedule, cancel; and those that were received: read, list. */
import type { App } from '#features/core/app/app.ts'
import { createBodyReader, readStoredContent } from '#features/core/app/stored-content.ts'
import type { EventType } from '#features/core/events/record.ts'
import * as inbound from '#features/receiving/inbound/api/inbound-emails.ts'
import { toHeadersWire } from '#features/receiving/inbound/api/model.ts'
import * as emails from '#features/sending/emails/read.ts'
import { cancelEmail, rescheduleEmail } from '#features/sending/emails/scheduled.ts'
import { emailRowWire, type MaxAttempts, type RenderBodies, readEmailBodies } from '#features/sending/emails/wire.ts'
import type { Status } from '#features/sending/queue/status.ts'
import type { RowWindow } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { formatMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { embedPictures, type InlinePicture, MAX_PICTURE_BYTES } from '#protocols/mime/inline-pictures.ts'
import { Fields, on, takes } from '../dialects/routes.ts'
import { toFileWire } from './file-routes.ts'
import { pageOfRows, readPage, TEXT } from './route.ts'
import { toSendAt, toTagPairs } from './translate.ts'

export interface EmailRouteOptions {
  readonly maxAttempts: MaxAttempts
  readonly renderedBodies: RenderBodies
}

const MOVED = Fields({ scheduled_at: TEXT })

export const emailRoutes = (options: EmailRouteOptions) => [
  on('GET /emails/', 'emails:read', ({ app, app: { db }, accountId, query }) => {
    const source = {
      find(id: string) {
        const uuid = parseUuid(id)
        return uuid && emails.findEmail(db, accountId, uuid)
      },
      keyOf: ({ createdAt, id }: emails.StoredEmail) => [createdAt, id],
      listBelow: (window: RowWindow) => emails.listEmails(db, accountId, ANY_EMAIL, window).emails,
      listAbove: (email: emails.StoredEmail, limit: number) => emails.listEmailsAbove(db, accountId, email, limit),
    }
    return readPage(query, source, (email) => toListedEmail(app, accountId, email, options.maxAttempts))
  }),
  on('GET /emails/:id', 'emails:read', async ({ app, accountId, id }) => {
    const email = emails.getEmail(app.db, accountId, id)
    const { html, text } = await readEmailBodies(app, email, options.renderedBodies)
    return toEmailDetail(app, accountId, email, { html, text, maxAttempts: options.maxAttempts })
  }),
  takes('PATCH /emails/:id', 'emails:send', MOVED, async ({ app, actor, id, body }) => {
    await rescheduleEmail(app, actor, id, { send_at: toSendAt(body.scheduled_at, app.clock.now()) ?? '' })
    return toEmailReference(id)
  }),
  on('POST /emails/:id/cancel', 'emails:send', async ({ app, actor, id }) => {
    await cancelEmail(app, actor, id)
    return toEmailReference(id)
  }),
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

const ANY_EMAIL = { status: undefined, from: 0, to: Number.MAX_SAFE_INTEGER }

const toEmailReference = (id: string) => ({ object: 'email' as const, id: id.toLowerCase() })

/** The clients' names of what happened last to an email. */
const BY_EVENT = {
  queued: 'queued',
  scheduled: 'scheduled',
  cancelled: 'canceled',
  sent: 'sent',
  delivered: 'delivered',
  deferred: 'delivery_delayed',
  bounced: 'bounced',
  failed: 'failed',
  rejected: 'suppressed',
  opened: 'opened',
  clicked: 'clicked',
  complained: 'complained',
  uncertain: 'sent',
} as const satisfies Partial<Record<EventType, string>>

/** For an email whose last event has no name of theirs, or was deleted because of its age. */
const BY_STATUS = {
  ...BY_EVENT,
  processing: 'queued',
  draft: 'scheduled',
  sent: 'delivered',
} as const satisfies Record<Status, string>

function readLastEvent({ db }: App, accountId: number, { id, status }: emails.StoredEmail) {
  const type = emails.readLastEventType(db, accountId, id)
  return type && type in BY_EVENT ? BY_EVENT[type as keyof typeof BY_EVENT] : BY_STATUS[status]
}

/** The mailboxes of a header; none for a text that is no list of them. */
export function toMailboxes(header: string | null | undefined): string[] {
  const parsed = header ? parseMailboxList(header) : undefined
  return parsed?.kind === 'ok' ? parsed.mailboxes.map(formatMailbox) : []
}

export function toListedEmail(app: App, accountId: number, email: emails.StoredEmail, maxAttempts: MaxAttempts) {
  const wire = emailRowWire(email, maxAttempts)
  return {
    id: wire.id,
    message_id: wire.message_id,
    from: wire.from_address,
    to: email.recipients.filter(({ kind }) => kind === 'to').map(({ address }) => address),
    cc: wire.cc,
    bcc: wire.bcc,
    reply_to: toMailboxes(wire.reply_to),
    subject: wire.subject,
    created_at: wire.created_at,
    scheduled_at: wire.scheduled_at ?? null,
    last_event: readLastEvent(app, accountId, email),
  }
}

export function toEmailDetail(
  app: App,
  accountId: number,
  email: emails.StoredEmail,
  { html, text, maxAttempts }: { html: string | null; text: string | null; maxAttempts: MaxAttempts },
) {
  const { tags } = emailRowWire(email, maxAttempts)
  return {
    object: 'email' as const,
    ...toListedEmail(app, accountId, email, maxAttempts),
    html,
    text,
    tags: toTagPairs(tags),
  }
}

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
