/** @module The attachments of emails that were sent, and of emails that were received. */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getInbound, type InboundEmail } from '#features/receiving/inbound/api/inbound-emails.ts'
import { createFileLink, type LinkedFile } from '#features/receiving/received/parts.ts'
import { getEmail, type StoredEmail } from '#features/sending/emails/read.ts'
import { emailRowWire, isBodyHidden } from '#features/sending/emails/wire.ts'
import type { Scope } from '#features/setup/api-keys/scopes.ts'
import { notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { RESEND_PREFIX } from './dialect.ts'
import { pageOf } from './list.ts'

export const resendAttachmentRoutes = (app: App) =>
  new Elysia({ name: 'resend-attachments' })
    .use(
      attachmentRoutes('/emails', 'emails:read', (actor, id) =>
        listSentFiles(app, actor, getEmail(app.db, actor.accountId, id)),
      ),
    )
    .use(
      attachmentRoutes('/emails/receiving', 'inbound:read', ({ accountId }, id) =>
        listReceivedFiles(app, getInbound(app.db, accountId, id)),
      ),
    )

/** @param listFiles the attachments of an email, by its id; their own ids are their numbers, from 0 */
const attachmentRoutes = (
  path: string,
  scope: Scope,
  listFiles: (actor: Actor, id: string) => { readonly id: string }[],
) =>
  new Elysia({ prefix: `${RESEND_PREFIX}${path}/:id/attachments` })
    .use(authenticated)
    .get('/', ({ actor, params, query }) => pageOf(query, listFiles(actor, params.id)), {
      detail: requires(scope),
    })
    .get(
      '/:number',
      ({ actor, params }) => {
        const file = listFiles(actor, params.id).find(({ id }) => id === params.number)
        if (!file) throw notFound('attachment_not_found', 'Attachment not found; its id is its number, from 0.')
        return { object: 'attachment' as const, ...file }
      },
      { detail: requires(scope) },
    )

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
