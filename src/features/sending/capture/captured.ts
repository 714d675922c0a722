/** @module Reads, marks and deletes the captured mail of an account. */
import type { Actor, App } from '#features/core/app/app.ts'
import { readStoredContent } from '#features/core/app/stored-content.ts'
import { audit, auditChange } from '#features/core/audit-logs/audit.ts'
import { findEmail, readEmailsByIds, type StoredEmail } from '#features/sending/emails/read.ts'
import { isBodyHidden } from '#features/sending/emails/wire.ts'
import { parseAttachments, type StoredAttachment } from '#features/sending/queue/retire.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import type { RowWindow } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { toWire } from '#platform/http/envelope.ts'
import { parseUuidParam } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB, MiB } from '#platform/units.ts'
import { decodeFields, decodeValue, readHead } from '#protocols/mime/header-fields.ts'
import { embedPictures, type InlinePicture, MAX_PICTURE_BYTES } from '#protocols/mime/inline-pictures.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { UnparseableError } from '#protocols/mime/parsed.ts'
import * as inbox from './inbox.ts'
import { type CapturedDetail, CapturedRow } from './model.ts'
import type { CapturedMessage, CaptureStore } from './store.ts'

/** Forwarded mail is only for those who may read received mail. */
type Reader = Pick<Actor, 'accountId' | 'scopes'>

/** A captured email of an account, with its row in the main database. */
interface Found {
  readonly email: StoredEmail
  readonly listed: inbox.InboxEmail
}

const BYTES_PER_WORK_UNIT = 4 * KiB
/** Parsing stops there. */
const MAX_CHARGED_BYTES = MiB
/** Emails deleted by one write. */
const DELETE_BATCH_SIZE = 200

const createNotFoundError = () =>
  notFound('captured_email_not_found', 'No captured message is stored for this email; captured mail is deleted by age.')

/** A page of the captured mail of an account, newest first. */
export function listCaptured(
  { db }: Pick<App, 'db'>,
  store: CaptureStore,
  accountId: number,
  filter: inbox.InboxFilter,
  page: RowWindow,
): { readonly rows: readonly CapturedRow[]; readonly listed: readonly inbox.InboxEmail[]; readonly total: number } {
  const { emails: listed, total } = inbox.listInbox(store.db, accountId, filter, page)
  const stored = new Map(
    readEmailsByIds(
      db,
      listed.map(({ emailId }) => emailId),
    ).map((email) => [email.id, email]),
  )
  const rows = listed.flatMap((row) => {
    const email = stored.get(row.emailId)
    return email ? [toRow(store, { email, listed: row })] : []
  })
  return { rows, listed, total }
}

const toRow = (store: CaptureStore, { email, listed }: Found): CapturedRow =>
  toWire(CapturedRow, listed, {
    id: formatUuid(email.uuid),
    from: listed.sender,
    rcpt_to: store.recipients(listed.emailId),
    read: listed.isRead,
  })

/** The captured email that a path names. Throws a 404. */
function requireCaptured({ db }: Pick<App, 'db'>, store: CaptureStore, actor: Reader, id: string): Found {
  const { accountId } = actor
  const email = findEmail(db, accountId, parseUuidParam(id, 'captured_email_not_found', 'captured email'))
  const listed = email && inbox.findInInbox(store.db, accountId, email.id)
  if (!listed || isBodyHidden(actor, email)) throw createNotFoundError()
  return { email, listed }
}

/** The message of a captured email for its first recipient, parsed. Throws a 404. */
export async function readCapturedMessage(
  app: Pick<App, 'db' | 'workBudget'>,
  store: CaptureStore,
  actor: Reader,
  id: string,
) {
  const found = requireCaptured(app, store, actor, id)
  const message = readStoredContent(() => store.firstOf(found.email.id))
  if (!message) throw createNotFoundError()
  app.workBudget.charge(actor.accountId, Math.min(message.raw.length, MAX_CHARGED_BYTES) / BYTES_PER_WORK_UNIT)
  return { ...found, message, parsed: await parseCaptured(message.raw) }
}

/** The HTML of a captured email with its pictures; null: it has none. Throws a 404. */
export async function readCapturedHtml(
  app: Pick<App, 'db' | 'workBudget' | 'content'>,
  store: CaptureStore,
  actor: Reader,
  id: string,
): Promise<string | null> {
  const { email, parsed } = await readCapturedMessage(app, store, actor, id)
  if (parsed.html === null) return null
  return embedPictures(parsed.html, readPictures(app, email))
}

/** The pictures of an email from the content store, without those that do not fit a page or were deleted. */
function readPictures({ content }: Pick<App, 'content'>, { attachments }: StoredEmail): InlinePicture[] {
  let bytes = 0
  return parseAttachments(attachments).flatMap(({ content_id: contentId, content_type: contentType, size, ref }) => {
    if (contentId === undefined || ref === undefined || bytes + size > MAX_PICTURE_BYTES) return []
    try {
      const picture = { contentId, contentType, content: content.get(ref) }
      bytes += size
      return [picture]
    } catch (error) {
      if (error instanceof MissingBlobError) return []
      throw error
    }
  })
}

/** A captured email with its content. Throws a 404. */
export async function readCapturedDetail(
  app: Pick<App, 'db' | 'workBudget'>,
  store: CaptureStore,
  actor: Reader,
  id: string,
): Promise<CapturedDetail> {
  const { email, listed, message, parsed } = await readCapturedMessage(app, store, actor, id)
  return {
    ...toRow(store, { email, listed }),
    mail_from: message.mailFrom,
    headers: readHeaders(message),
    text: parsed.text,
    html: parsed.html,
    truncated: parsed.isTruncated,
    attachments: parseAttachments(email.attachments).map(({ filename, content_type, size }) => ({
      filename,
      content_type,
      size,
    })),
  }
}

const readHeaders = ({ head }: CapturedMessage): CapturedDetail['headers'] =>
  decodeFields(readHead(head)?.rawFields ?? [], null).map(([name, value]) => ({ name, value: decodeValue(value) }))

const POSITION = /^(?:0|[1-9]\d{0,5})$/

/** An attachment of a captured email, by its number. Throws a 404, also when its content was deleted. */
export function findCapturedAttachment(
  app: Pick<App, 'db'>,
  store: CaptureStore,
  actor: Reader,
  { id, n }: { readonly id: string; readonly n: string },
): StoredAttachment & { readonly ref: number } {
  const { email } = requireCaptured(app, store, actor, id)
  const attachment = POSITION.test(n) ? parseAttachments(email.attachments)[Number(n)] : undefined
  if (attachment?.ref === undefined)
    throw notFound('attachment_not_found', 'Attachment not found, or no longer stored; numbers start at 0.')
  return { ...attachment, ref: attachment.ref }
}

/** Marks a captured email as read or unread. Throws a 404. */
export async function markCapturedRead(
  app: Pick<App, 'db'>,
  store: CaptureStore,
  actor: Reader,
  { id, isRead }: { readonly id: string; readonly isRead: boolean },
): Promise<CapturedRow> {
  const { email, listed } = requireCaptured(app, store, actor, id)
  if (listed.isRead !== isRead) await inbox.markRead(store.committer, actor.accountId, email.id, isRead)
  return toRow(store, { email, listed: { ...listed, isRead } })
}

/** Deletes the captures of an email; the email itself stays. Throws a 404. */
export async function deleteCaptured(app: App, store: CaptureStore, actor: Actor, id: string): Promise<void> {
  const { email } = requireCaptured(app, store, actor, id)
  await store.remove([email.id])
  await app.commit.write((tx) => auditChange(app, tx, actor, 'captured_email.deleted', email.uuid))
}

/** Deletes all mail of an account that was captured until now, in batches; returns the number of emails. */
export async function deleteAllCaptured(app: App, store: CaptureStore, actor: Actor): Promise<number> {
  // Not the time of now: the clock may have been set back.
  const newestAt = inbox.findNewestTime(store.db, actor.accountId) ?? 0
  let deleted = 0
  for (;;) {
    const emailIds = inbox.findCapturedBy(store.db, actor.accountId, newestAt, DELETE_BATCH_SIZE)
    if (emailIds.length === 0 || (await store.remove(emailIds)) === 0) break
    deleted += emailIds.length
  }
  await app.commit.write((tx) =>
    audit(app, tx, actor, { action: 'captured_emails.deleted', metadata: { count: deleted } }),
  )
  return deleted
}

interface ReadableMessage {
  readonly text: string | null
  readonly html: string | null
  /** Whether text or HTML may be missing or truncated: they come before all other parts. */
  readonly isTruncated: boolean
}

/** Bodies precede attachments, so the start of a message has the readable part. */
const MAX_PARSED_BYTES = MiB

/** Parses the first MiB of a message. Everything is empty if the message cannot be parsed. */
export async function parseCaptured(raw: Uint8Array): Promise<ReadableMessage> {
  const isCut = raw.length > MAX_PARSED_BYTES
  try {
    const { text, html, attachments } = await parseMessage(raw.subarray(0, MAX_PARSED_BYTES), { mailFrom: '' })
    return { text, html, isTruncated: isCut && attachments.length === 0 }
  } catch (error) {
    if (!(error instanceof UnparseableError)) throw error
    return { text: null, html: null, isTruncated: isCut }
  }
}
