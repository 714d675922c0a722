/** @module The attachments of emails that were sent, and of emails that were received; links to files, which need no key. */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { downloadStored } from '#features/core/app/stored-content.ts'
import { getInbound, type InboundEmail } from '#features/receiving/inbound/api/inbound-emails.ts'
import * as parts from '#features/receiving/received/parts.ts'
import { findEmail, getEmail, type StoredEmail } from '#features/sending/emails/read.ts'
import { attachmentRefs, emailRowWire, isBodyHidden } from '#features/sending/emails/wire.ts'
import { notFound } from '#platform/errors.ts'
import { publicRoute } from '#platform/http/access.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Call, on } from '../dialects/routes.ts'
import { RESEND_PREFIX } from './dialect.ts'
import { pageOf } from './route.ts'

const FILES_PATH = `${RESEND_PREFIX}/files`

/** @param listFiles the attachments of an email; their ids are their numbers, from 0 */
const routesOf = (path: string, scope: string, listFiles: (call: Call) => { readonly id: string }[]) => [
  on(`GET ${path}/:id/attachments`, scope, (call) => pageOf(call.query, listFiles(call))),
  on(`GET ${path}/:id/attachments/:part`, scope, (call) => {
    const file = listFiles(call).find(({ id }) => id === call.part)
    if (!file) throw notFound('attachment_not_found', 'Attachment not found; its id is its number, from 0.')
    return { object: 'attachment', ...file }
  }),
]

export const fileRoutes = [
  ...routesOf('/emails', 'emails:read', ({ app, actor, accountId, id }) =>
    listSentFiles(app, actor, getEmail(app.db, accountId, id)),
  ),
  ...routesOf('/emails/receiving', 'inbound:read', ({ app, accountId, id }) =>
    listReceivedFiles(app, getInbound(app.db, accountId, id)),
  ),
]

export const downloadRoute = (app: App) =>
  new Elysia().get(
    FILES_PATH,
    ({ query, request }) => download(app, request, parts.openFileLink(app, query['token'] ?? '')),
    { detail: publicRoute },
  )

async function download(app: App, request: Request, file: parts.LinkedFile): Promise<Response> {
  const { kind, accountId, uuid, index } = file
  if (kind === 'mailbox') throw parts.createExpiredError()
  if (kind === 'sent') return downloadSent(app, request, file)
  const email = getInbound(app.db, accountId, formatUuid(uuid))
  if (kind === 'raw') return parts.createRawDownload(app, request, email, formatUuid(uuid))
  return downloadStored(app, request, parts.getAttachment(email.attachments, String(index)))
}

async function downloadSent(
  app: App,
  request: Request,
  { accountId, uuid, index }: parts.LinkedFile,
): Promise<Response> {
  const email = findEmail(app.db, accountId, uuid)
  const ref = email && attachmentRefs(email)[index]
  const file = email && emailRowWire(email, () => 0).attachments?.[index]
  if (ref === undefined || !file)
    throw notFound('attachment_not_found', 'The content of this attachment is no longer stored.')
  return downloadStored(app, request, { ...file, ref })
}

/** A link to a file, as this interface shows it. */
export function toFileWire(app: App, file: parts.LinkedFile) {
  const { url, expiresAt } = parts.createFileLink(app, FILES_PATH, file)
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
