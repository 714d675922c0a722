/** @module Reads, lists, labels, counts and deletes messages of a mailbox. `leases.ts` leases them to consumers. */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { type AttachmentJson, selectListedAttachments } from '#features/receiving/received/parts.ts'
import type { SpamVerdict } from '#features/receiving/received/spam.ts'
import { belowTimeAndId, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { uncountContact } from './contacts.ts'
import { getMailbox, type Mailbox } from './mailboxes.ts'
import { searchMessageIds, unindexMessage } from './search.ts'
import type { mailboxMessages } from './tables.ts'
import type { Thread } from './threads.ts'

interface Row extends Readonly<typeof mailboxMessages.$inferSelect> {
  readonly threadUuid: UuidBytes
  /** Also null when the email was deleted. */
  readonly emailUuid: UuidBytes | null
}

/** A row of `mailbox_messages`, with the public ids of its thread and of its email. */
export interface MailboxMessage
  extends Omit<Row, 'attachments' | 'authentication' | 'spam' | 'classification' | 'labels'> {
  readonly attachments: readonly AttachmentJson[]
  readonly authentication: AuthenticationResult | null
  readonly spam: SpamVerdict | null
  readonly classification: { readonly label: string; readonly confidence: number } | null
  readonly labels: readonly string[]
}

const buildSelect = (
  attachments: string,
): string => `SELECT m.id, m.uuid, m.mailbox_id AS mailboxId, m.thread_id AS threadId, t.uuid AS threadUuid, m.email_id AS emailId,
  emails.uuid AS emailUuid, m.message_id AS messageId, m.in_reply_to AS inReplyTo, m.references_header AS "references", m.mail_from AS mailFrom,
  m.from_header AS fromHeader, m.from_address AS fromAddress, m.to_header AS toHeader, m.cc_header AS ccHeader, m.reply_to AS replyTo, m.subject,
  m.text_ref AS textRef, m.stripped_ref AS strippedRef, m.html_ref AS htmlRef, ${attachments} AS attachments, m.raw_ref AS rawRef, m.size_bytes AS sizeBytes, m.source_ip AS sourceIp, m.helo, m.tls,
  m.authentication, m.spam, m.classification, m.parse_error AS parseError, m.labels, m.read_at AS readAt, m.lease_token AS leaseToken, m.lease_expires_at AS leaseExpiresAt,
  m.acked_at AS ackedAt, m.received_at AS receivedAt, m.created_at AS createdAt
  FROM mailbox_messages m JOIN mailbox_threads t ON t.id = m.thread_id LEFT JOIN emails ON emails.id = m.email_id`
const SELECT = buildSelect('m.attachments')
const SELECT_LISTED = buildSelect(selectListedAttachments('m.attachments'))

/** The subquery finds the rows of a page from the index alone. Ids ascend with created_at. */
const selectPage = (index: string, where: string) =>
  `${SELECT_LISTED} WHERE m.id IN (SELECT id FROM mailbox_messages INDEXED BY ${index} WHERE mailbox_id = ? AND email_id IS NULL${where} AND (created_at, id) < (?, ?)
   ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?) ORDER BY m.id DESC`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} WHERE m.uuid = ? AND m.mailbox_id = ?`),
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE m.id = ?`),
  after: db.prepare<Row, [number, number]>(
    `${SELECT} JOIN agent_mailboxes b ON b.id = m.mailbox_id AND b.deleted_at IS NULL WHERE m.id > ? ORDER BY m.id LIMIT ?`,
  ),
  ofAccount: db.prepare<Row, [Uint8Array, number]>(
    `${SELECT} JOIN agent_mailboxes b ON b.id = m.mailbox_id WHERE m.uuid = ? AND b.account_id = ? AND b.deleted_at IS NULL`,
  ),
  unparsed: db.prepare<Row, [number, number]>(
    `${SELECT} WHERE m.id IN (SELECT u.id FROM mailbox_messages u INDEXED BY mailbox_messages_unparsed JOIN agent_mailboxes b ON b.id = u.mailbox_id
     WHERE u.parse_error IS NOT NULL AND u.id > ? AND b.deleted_at IS NULL ORDER BY u.id LIMIT ?) ORDER BY m.id`,
  ),
  unparsedByUuid: db.prepare<Row, [Uint8Array]>(`${SELECT} WHERE m.uuid = ? AND m.parse_error IS NOT NULL`),
  listed: db.prepare<Row, [number]>(`${SELECT_LISTED} WHERE m.id = ?`),
  all: db.prepare<Row, [number, number, number, number, number]>(selectPage('mailbox_messages_mailbox', '')),
  unread: db.prepare<Row, [number, number, number, number, number]>(
    selectPage('mailbox_messages_unread', ' AND read_at IS NULL'),
  ),
  read: db.prepare<Row, [number, number, number, number, number]>(
    selectPage('mailbox_messages_read', ' AND read_at IS NOT NULL'),
  ),
  ofThread: db.prepare<Row, [number, number, number]>(
    `${SELECT_LISTED} WHERE m.id IN (SELECT id FROM mailbox_messages WHERE thread_id = ? ORDER BY id LIMIT ? OFFSET ?) ORDER BY m.id`,
  ),
  newestOfThread: db.prepare<Row, [number]>(
    `${SELECT_LISTED} WHERE m.id = (SELECT id FROM mailbox_messages WHERE thread_id = ? ORDER BY id DESC LIMIT 1)`,
  ),
  countSince: db.prepare<{ n: number }, [number, number]>(
    'SELECT COUNT(*) AS n FROM mailbox_messages INDEXED BY mailbox_messages_mailbox WHERE mailbox_id = ? AND created_at >= ? AND email_id IS NULL',
  ),
  setLabels: db.prepare('UPDATE mailbox_messages SET labels = ? WHERE id = ?'),
  delete: db.prepare('DELETE FROM mailbox_messages WHERE id = ?'),
  takeFromMailbox: db.prepare(
    'UPDATE agent_mailboxes SET message_count = message_count - 1, unread_count = unread_count - ?, unread_bytes = unread_bytes - ? WHERE id = ?',
  ),
  takeFromThread: db.prepare<{ messageCount: number }, [number]>(
    'UPDATE mailbox_threads SET message_count = message_count - 1 WHERE id = ? RETURNING message_count AS messageCount',
  ),
  deleteThread: db.prepare('DELETE FROM mailbox_threads WHERE id = ?'),
  takeThread: db.prepare('UPDATE agent_mailboxes SET thread_count = thread_count - 1 WHERE id = ?'),
}))

const toMailboxMessage = (row: Row): MailboxMessage => ({
  ...row,
  attachments: JSON.parse(row.attachments) as AttachmentJson[],
  authentication: row.authentication === null ? null : (JSON.parse(row.authentication) as AuthenticationResult),
  spam: row.spam === null ? null : (JSON.parse(row.spam) as SpamVerdict),
  classification:
    row.classification === null ? null : (JSON.parse(row.classification) as { label: string; confidence: number }),
  labels: JSON.parse(row.labels) as string[],
})

/** The message of a mailbox with this public id, received or sent; throws 404. */
export function getMessage(db: Database, mailbox: Pick<Mailbox, 'id'>, mid: string): MailboxMessage {
  const row = sql(db).byUuid.get(parseUuidParam(mid, 'message_not_found', 'message'), mailbox.id)
  if (!row) throw notFoundById('message_not_found', 'message')
  return toMailboxMessage(row)
}

/** A mailbox of the account and a message in it, by their public ids; throws 404. */
export function getMailboxMessage(db: Database, accountId: number, id: string, mid: string) {
  const mailbox = getMailbox(db, accountId, id)
  return { mailbox, message: getMessage(db, mailbox, mid) }
}

const toFound = (row: Row | null): MailboxMessage | undefined => (row ? toMailboxMessage(row) : undefined)

export const findMessageOfAccount = (db: Database, accountId: number, uuid: UuidBytes) =>
  toFound(sql(db).ofAccount.get(uuid, accountId))

/** Unparsed messages, of which only the header is stored, but for those of deleted mailboxes. */
export const listUnparsedMessagesAfter = (db: Database, after: number, limit: number): MailboxMessage[] =>
  sql(db).unparsed.all(after, limit).map(toMailboxMessage)

export const findUnparsedMessage = (db: Database, uuid: UuidBytes) => toFound(sql(db).unparsedByUuid.get(uuid))

export const findMessageById = (db: Database, id: number) => toFound(sql(db).byId.get(id))

/** Messages after a row id, in order, but for those of deleted mailboxes. */
export const listMessagesAfter = (db: Database, id: number, limit: number): MailboxMessage[] =>
  sql(db).after.all(id, limit).map(toMailboxMessage)

export const MESSAGE_STATUSES = ['all', 'unread', 'read'] as const
export type MessageStatus = (typeof MESSAGE_STATUSES)[number]

export function listMessages(
  db: Database,
  mailbox: Mailbox,
  status: MessageStatus,
  page: RowWindow,
): { messages: MailboxMessage[]; total: number } {
  const { messageCount, unreadCount } = mailbox
  const total = { all: messageCount, unread: unreadCount, read: messageCount - unreadCount }[status]
  const { limit, offset } = page
  // SQLite scans every row that OFFSET skips, so an offset past the end is not queried.
  if (offset >= total) return { messages: [], total }
  return {
    messages: sql(db)
      [status].all(mailbox.id, ...belowTimeAndId(page), limit, offset)
      .map(toMailboxMessage),
    total,
  }
}

/** Messages that contain all words, received and sent, newest first. Throws 422 for an invalid search. */
export function searchMessages(
  db: Database,
  mailbox: Pick<Mailbox, 'id'>,
  text: string,
  { limit, offset }: RowWindow,
): { messages: MailboxMessage[]; total: number } {
  const ids = searchMessageIds(db, mailbox.id, text)
  const messages = ids.slice(offset, offset + limit).flatMap((id) => {
    const row = sql(db).listed.get(id)
    // The search index already limits results to the mailbox; checked again, because tenants must never see each
    // other's mail.
    return row?.mailboxId === mailbox.id ? [toMailboxMessage(row)] : []
  })
  return { messages, total: ids.length }
}

/** Messages of a thread, oldest first, received and sent. */
export const listThreadMessages = (
  db: Database,
  thread: Pick<Thread, 'id'>,
  { limit, offset }: RowWindow,
): MailboxMessage[] => sql(db).ofThread.all(thread.id, limit, offset).map(toMailboxMessage)

export interface NewestMessage {
  readonly thread: Thread
  readonly newest: MailboxMessage
}

export const readNewestMessages = (db: Database, threads: readonly Thread[]): NewestMessage[] =>
  threads.flatMap((thread) => {
    const row = sql(db).newestOfThread.get(thread.id)
    return row ? [{ thread, newest: toMailboxMessage(row) }] : []
  })

export function readMailboxAnalytics({ clock, db }: Pick<App, 'clock' | 'db'>, mailbox: Mailbox) {
  const now = clock.now()
  const midnight = now - (now % days(1))
  const countSince = (at: Millis) => sql(db).countSince.get(mailbox.id, at)?.n ?? 0
  return {
    total_messages: mailbox.messageCount,
    unread_messages: mailbox.unreadCount,
    total_threads: mailbox.threadCount,
    messages_today: countSince(midnight),
    messages_this_week: countSince(midnight - days(6)),
  }
}

const MAX_LABELS = 50
const LABEL = /^[A-Za-z0-9_-]{1,64}$/

/** Replaces the labels of a message. Throws 404, and 422 for an invalid label. */
export function setLabels(
  app: App,
  actor: Actor,
  id: string,
  mid: string,
  requestedLabels: readonly string[],
): Promise<MailboxMessage> {
  const labels = [...new Set(requestedLabels)]
  if (requestedLabels.length > MAX_LABELS) throw invalid('labels', `labels must have at most ${MAX_LABELS} entries.`)
  for (const [index, label] of labels.entries())
    if (!LABEL.test(label))
      throw invalid(`labels.${index}`, 'Each label must have 1 to 64 of A to Z, a to z, 0 to 9, "_" and "-".')
  return app.commit.write((tx) => {
    const { message } = getMailboxMessage(tx.db, actor.accountId, id, mid)
    sql(tx.db).setLabels.run(JSON.stringify(labels), message.id)
    auditChange(app, tx, actor, 'mailbox_message.labelled', message.uuid, { labels })
    return { ...message, labels }
  })
}

/** Deletes a message, received or sent; the last message takes its thread with it. Throws 404. */
export function deleteMessage(app: App, actor: Actor, id: string, mid: string): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const { mailbox, message } = getMailboxMessage(tx.db, actor.accountId, id, mid)
    removeMessage(app, tx, message)
    auditChange(app, tx, actor, 'mailbox_message.deleted', message.uuid, { mailbox: mailbox.address })
  })
}

/** Deletes a message, its counts and its content references. The last message takes its thread with it. */
export function removeMessage(app: Pick<App, 'contentDropped'>, tx: Tx, message: MailboxMessage): void {
  const statements = sql(tx.db)
  const { mailboxId } = message
  unindexMessage(tx, message.id)
  statements.delete.run(message.id)
  if (statements.takeFromThread.get(message.threadId)?.messageCount === 0) {
    statements.deleteThread.run(message.threadId)
    statements.takeThread.run(mailboxId)
  }
  if (message.emailId === null) {
    const isUnread = message.readAt === null
    statements.takeFromMailbox.run(isUnread ? 1 : 0, isUnread ? message.sizeBytes : 0, mailboxId)
    uncountContact(tx, mailboxId, message.fromAddress)
  }
  const { textRef, strippedRef, htmlRef, attachments, rawRef } = message
  dropContent(app, tx, {
    content: [textRef, strippedRef, htmlRef, ...attachments.map(({ ref }) => ref)],
    rawMail: [rawRef],
  })
}
