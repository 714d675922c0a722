/** @module The attachments of emails that were sent, and of emails that were received. */
import type { Actor, App } from '#features/core/app/app.ts'
import { getInbound, type InboundEmail } from '#features/receiving/inbound/api/inbound-emails.ts'
import { createFileLink, type LinkedFile } from '#features/receiving/received/parts.ts'
import { getEmail, type StoredEmail } from '#features/sending/emails/read.ts'
import { emailRowWire, isBodyHidden } from '#features/sending/emails/wire.ts'
import { notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { RESEND_PREFIX } from './dialect.ts'
import { pageOf } from './list.ts'
import { type Call, on } from './route.ts'

/** @param listFiles the attachments of an email; their ids are their numbers, from 0 */
const routesOf = (path: string, scope: string, listFiles: (call: Call) => { readonly id: string }[]) => [
  on(`GET ${path}/:id/attachments`, scope, (call) => pageOf(call.query, listFiles(call))),
  on(`GET ${path}/:id/attachments/:part`, scope, (call) => {
    const file = listFiles(call).find(({ id }) => id === call.part)
    if (!file) throw notFound('attachment_not_found', 'Attachment not found; its id is its number, from 0.')
    return { object: 'attachment', ...file }
  }),
]

export const attachmentRoutes = [
  ...routesOf('/emails', 'emails:read', ({ app, actor, accountId, id }) =>
    listSentFiles(app, actor, getEmail(app.db, accountId, id)),
  ),
  ...routesOf('/emails/receiving', 'inbound:read', ({ app, accountId, id }) =>
    listReceivedFiles(app, getInbound(app.db, accountId, id)),
  ),
]

export const RESEND_FILES_PATH = `${RESEND_PREFIX}/files`

/** A link to a file, as this interface shows it. */
export function toFileWire(app: App, file: LinkedFile) {
  const { url, expiresAt } = createFileLink(app, RESEND_FILES_PATH, file)
  return { download_url: url, expires_at: isoTime(expiresAt) }
}

/** None of mail that only its recipient may read. */
export function listSentFiles(app: App, actor: Actor, email: StoredEmail) {
  const files = isBodyHidden(actor, email) ? [] : (emailRowWire(email, () => 0).attachments ?? [])
  return files.map(({ filename, content_type, content_id, size }, index) => ({
    id: String(index),
    filename,
    size,
    content_type,
    content_disposition: content_id === undefined ? ('attachment' as const) : ('inline' as const),
    ...(content_id !== undefined && { content_id }),
    ...toFileWire(app, { kind: 'sent', accountId: actor.accountId, uuid: email.uuid, index }),
  }))
}

export const listReceivedFiles = (app: App, { attachments, accountId, uuid }: InboundEmail) =>
  attachments.map(({ filename, size, content_type, disposition, content_id }, index) => ({
    id: String(index),
    ...(filename !== null && { filename }),
    size,
    content_type,
    content_disposition: disposition ?? ('attachment' as const),
    ...(content_id != null && { content_id }),
    ...toFileWire(app, { kind: 'received', accountId, uuid, index }),
  }))
