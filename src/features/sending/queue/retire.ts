/**
 * @module Deletes ended emails for retention: first their content, later their rows. Never deletes an email with an
 * open recipient. Together with `insert.ts`, `erase.ts` and the files listed in `status.ts`, the only writer of
 * `emails`, `recipients` and `idempotency_keys`.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { toEventCode } from '#features/core/events/record.ts'
import type { ContentRef } from '#platform/content/store.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { deleteAttempts } from './attempt-transitions.ts'
import type { DraftAttachment } from './email.ts'
import { unindexEmail } from './search.ts'
import { countStatus } from './settle.ts'
import { isOpen, OPEN_CODES, statusName } from './status.ts'
import type { emails } from './tables.ts'

/** An attachment as stored in `emails.attachments`; without `ref` once its content was deleted. */
export interface StoredAttachment {
  readonly filename: string
  readonly content_type: string
  readonly content_id?: string
  readonly alternative?: true
  readonly size: number
  readonly ref?: ContentRef
}

export interface OldEmail
  extends Readonly<
    Pick<
      typeof emails.$inferSelect,
      | ('id' | 'accountId' | 'status' | 'broadcastId' | 'htmlRef' | 'textRef' | 'attachments')
      | ('sizeBytes' | 'createdAt' | 'updatedAt')
    >
  > {
  readonly idempotencyKey: string | null
  readonly sandbox: number
}

const COLUMNS = `id, account_id AS accountId, status, sandbox, broadcast_id AS broadcastId, html_ref AS htmlRef, text_ref AS textRef, attachments,
  extra ->> '$.idempotency_key' AS idempotencyKey, size_bytes AS sizeBytes, created_at AS createdAt, updated_at AS updatedAt`

/** Events caused by readers; they do not extend the retention of an email. */
const READER_EVENTS = (['opened', 'clicked', 'unsubscribed'] as const).map(toEventCode).join(', ')

const sql = prepareStatements((db) => ({
  after: db.prepare<OldEmail, [number, number]>(`SELECT ${COLUMNS} FROM emails WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<OldEmail, [number]>(`SELECT ${COLUMNS} FROM emails WHERE id = ?`),
  recipients: db.prepare<{ id: number; status: number; deliveredAt: Millis | null }, [number]>(
    'SELECT id, status, delivered_at AS deliveredAt FROM recipients WHERE email_id = ?',
  ),
  lastEvent: db.prepare<{ at: Millis | null }, [number]>(
    `SELECT max(at) AS at FROM events WHERE email_id = ? AND type NOT IN (${READER_EVENTS})`,
  ),
  dropRefs: db.prepare('UPDATE emails SET html_ref = NULL, text_ref = NULL, attachments = ? WHERE id = ?'),
  deleteKey: db.prepare('DELETE FROM idempotency_keys WHERE account_id = ? AND key_hash = ? AND email_id = ?'),
  deleteRecipients: db.prepare('DELETE FROM recipients WHERE email_id = ?'),
  deleteEmail: db.prepare('DELETE FROM emails WHERE id = ?'),
  ofOperation: db.prepare<{ id: number }, [number]>('SELECT id FROM emails WHERE operation_id = ? LIMIT 1'),
  openOfBroadcast: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM emails WHERE operation_id = ? AND status IN ${OPEN_CODES} LIMIT 1`,
  ),
}))

/** Emails after a row id, in order; row ids grow with created_at. */
export const readEmailsAfter = (db: Database, id: number, limit: number): OldEmail[] => sql(db).after.all(id, limit)

export const findOldEmail = (db: Database, id: number): OldEmail | undefined => sql(db).byId.get(id) ?? undefined

export const hasEmails = (db: Database, operationId: number): boolean => sql(db).ofOperation.get(operationId) !== null

export const hasOpenEmails = (db: Database, operationId: number): boolean =>
  sql(db).openOfBroadcast.get(operationId) !== null

export const hasEndedBefore = ({ status, updatedAt }: Pick<OldEmail, 'status' | 'updatedAt'>, time: Millis): boolean =>
  !isOpen(statusName(status)) && updatedAt < time

export const parseAttachments = (json: string | null): StoredAttachment[] =>
  json === null ? [] : (JSON.parse(json) as StoredAttachment[])

/** A stored attachment as it is composed, without its content. */
export const describeAttachment = (file: Omit<StoredAttachment, 'size'>): Omit<DraftAttachment, 'content'> => ({
  filename: file.filename,
  contentType: file.content_type,
  ...(file.content_id !== undefined && { contentId: file.content_id }),
  ...(file.alternative && { isAlternative: true }),
})

/** Whether retention deleted the content of an email, so that it cannot be sent again. */
export function isContentDeleted(db: Database, emailId: number): boolean {
  const email = findOldEmail(db, emailId)
  if (!email) return false
  const files = parseAttachments(email.attachments)
  if (files.some(({ ref }) => ref === undefined)) return true
  return email.htmlRef === null && email.textRef === null && files.length === 0 && email.sizeBytes > 0
}

/** All other data, such as the names of the attachments, stays. */
export function dropEmailContent(app: App, tx: Tx, email: OldEmail): void {
  const refs = listContentRefs(email)
  if (refs.length === 0) return
  const files = parseAttachments(email.attachments).map(({ ref: _, ...file }) => file)
  sql(tx.db).dropRefs.run(email.attachments === null ? null : JSON.stringify(files), email.id)
  // The emails of a broadcast share its sources, which are deleted with the broadcast.
  if (email.broadcastId === null) dropContent(app, tx, { content: refs })
}

/** The references of the bodies and attachments of an email. */
export const listContentRefs = (email: Pick<OldEmail, 'htmlRef' | 'textRef' | 'attachments'>): ContentRef[] =>
  [email.htmlRef, email.textRef, ...parseAttachments(email.attachments).map(({ ref }) => ref)].filter(
    (ref) => ref !== null && ref !== undefined,
  )

/** Row ids of an email's recipients; undefined if anything but reader events has happened since `time`. */
export function findUnchangedRecipients(tx: Tx, email: OldEmail, time: Millis): number[] | undefined {
  if (!hasEndedBefore(email, time)) return undefined
  const recipients = sql(tx.db).recipients.all(email.id)
  if (recipients.some(({ status, deliveredAt }) => isOpen(statusName(status)) || (deliveredAt ?? 0) >= time))
    return undefined
  return (sql(tx.db).lastEvent.get(email.id)?.at ?? 0) < time ? recipients.map(({ id }) => id) : undefined
}

/** Deletes an ended email with its recipients and key, and uncounts it in the list totals; its events stay. */
export function deleteEmail(app: App, tx: Tx, email: OldEmail): void {
  const statements = sql(tx.db)
  if (email.broadcastId === null) dropContent(app, tx, { content: listContentRefs(email) })
  if (email.idempotencyKey !== null)
    statements.deleteKey.run(email.accountId, sha256(email.idempotencyKey).slice(0, 16), email.id)
  deleteAttempts(tx, email.id)
  statements.deleteRecipients.run(email.id)
  statements.deleteEmail.run(email.id)
  unindexEmail(tx, email.id)
  countStatus(tx, email, statusName(email.status), -1)
}
