/**
 * @module Groups messages of a mailbox into threads: a message joins the thread of the message that it answers (RFC
 * 5322 §3.6.4), or starts one. Uses Message-IDs only: equal subjects prove nothing.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { belowTimeAndId, insertSql, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { newUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import type { Mailbox } from './mailboxes.ts'
import { indexMessage } from './search.ts'
import type { mailboxThreads } from './tables.ts'

export type Thread = Readonly<Omit<typeof mailboxThreads.$inferSelect, 'mailboxId'>>

type SentEmail = Pick<
  typeof emails.$inferSelect,
  'from' | 'subject' | 'htmlRef' | 'textRef' | 'attachments' | 'sizeBytes'
>

const COLUMNS =
  'id, uuid, subject, message_count AS messageCount, last_message_at AS lastMessageAt, created_at AS createdAt'

const sql = prepareStatements((db) => ({
  // The first message with the Message-ID: a later message that reuses the id cannot draw replies into another thread.
  ofMessage: db.prepare<{ threadId: number }, [number, string]>(
    'SELECT thread_id AS threadId FROM mailbox_messages WHERE mailbox_id = ? AND message_id = ? ORDER BY id LIMIT 1',
  ),
  insert: db.prepare<{ id: number }, [Uint8Array, number, string, number, number]>(
    'INSERT INTO mailbox_threads (uuid, mailbox_id, subject, message_count, last_message_at, created_at) VALUES (?, ?, ?, 1, ?, ?) RETURNING id',
  ),
  addMessage: db.prepare(
    'UPDATE mailbox_threads SET message_count = message_count + 1, last_message_at = ? WHERE id = ? AND mailbox_id = ?',
  ),
  addThread: db.prepare('UPDATE agent_mailboxes SET thread_count = thread_count + 1 WHERE id = ?'),
  byUuid: db.prepare<Thread, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM mailbox_threads WHERE mailbox_id = ?2 AND
     (uuid = ?1 OR id = (SELECT thread_id FROM mailbox_messages WHERE uuid = ?1 AND mailbox_id = ?2))`,
  ),
  page: db.prepare<Thread, [number, number, number, number, number]>(
    `SELECT ${COLUMNS} FROM mailbox_threads WHERE mailbox_id = ? AND (last_message_at, id) < (?, ?) ORDER BY last_message_at DESC, id DESC LIMIT ? OFFSET ?`,
  ),
  email: db.prepare<SentEmail, [number]>(
    'SELECT from_address AS "from", subject, html_ref AS htmlRef, text_ref AS textRef, attachments, size_bytes AS sizeBytes FROM emails WHERE id = ?',
  ),
  insertSent: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql(
      'mailbox_messages',
      'uuid mailboxId threadId emailId messageId inReplyTo referencesHeader mailFrom fromHeader fromAddress toHeader subject textRef htmlRef attachments sizeBytes labels createdAt',
    )} RETURNING id`,
  ),
}))

/** Maximum references looked up, from the last (the nearest) backwards. */
const MAX_REFERENCES = 20

/** The fields that determine the thread of a message. Message-IDs have angle brackets. */
export interface ThreadedMessage {
  readonly messageId: string | null
  readonly inReplyTo: string | null
  readonly references: readonly string[]
  readonly subject: string
  readonly at: Millis
  /** Row id of the thread, if it is known; it takes precedence over the Message-IDs. */
  readonly threadId?: number | undefined
}

/** Adds a message to its thread, which is found or created. Returns the row id of the thread. */
export function addToThread(tx: Tx, mailbox: Pick<Mailbox, 'id'>, message: ThreadedMessage): number {
  const { threadId: knownId, at } = message
  const tryAddTo = (threadId: number): boolean => sql(tx.db).addMessage.run(at, threadId, mailbox.id).changes === 1
  // The thread may have been deleted with its last message.
  if (knownId !== undefined && tryAddTo(knownId)) return knownId
  const found = findThread(tx.db, mailbox.id, message)
  if (found !== undefined && tryAddTo(found)) return found
  const created = sql(tx.db).insert.get(newUuid(), mailbox.id, message.subject, message.at, message.at)
  if (!created) throw new Error('the thread was not stored')
  sql(tx.db).addThread.run(mailbox.id)
  return created.id
}

function findThread(db: Database, mailboxId: number, message: ThreadedMessage): number | undefined {
  // The answered message comes first. The message's own id comes last, in case another copy of it, for example from a
  // mailing list, is already stored.
  const references = message.references.slice(-MAX_REFERENCES).reverse()
  for (const id of [message.inReplyTo, ...references, message.messageId]) {
    const found = id === null ? undefined : sql(db).ofMessage.get(mailboxId, id)?.threadId
    if (found !== undefined) return found
  }
  return undefined
}

/** The thread of a mailbox with this public id, or with a message that has it; throws 404. */
export function getThread(db: Database, mailbox: Pick<Mailbox, 'id'>, id: string): Thread {
  const thread = sql(db).byUuid.get(parseUuidParam(id, 'thread_not_found', 'thread'), mailbox.id)
  if (!thread) throw notFoundById('thread_not_found', 'thread')
  return thread
}

export const listThreads = (db: Database, mailbox: Pick<Mailbox, 'id' | 'threadCount'>, page: RowWindow) => ({
  threads: sql(db).page.all(mailbox.id, ...belowTimeAndId(page), page.limit, page.offset),
  total: mailbox.threadCount,
})

/** An email that was sent from a mailbox. */
export interface SentReply {
  readonly emailId: number
  /** With angle brackets, like `inReplyTo` and `references`. */
  readonly messageId: string
  readonly inReplyTo: string | null
  readonly references: readonly string[]
  readonly to: string
  /** Text for the search index. */
  readonly text: string
  /** Row id of the thread of the answered message, which may have no Message-ID; absent: found by the ids. */
  readonly threadId?: number | undefined
}

/**
 * Adds an email sent from a mailbox to its thread, once, when it is accepted; all other data stays with the email. It
 * counts in the thread, not in the mailbox.
 */
export function storeSentReply(app: App, tx: Tx, mailbox: Mailbox, reply: SentReply): void {
  const email = sql(tx.db).email.get(reply.emailId)
  if (!email) throw new Error(`email ${reply.emailId} does not exist`)
  const at = app.eventTime()
  const uuid = newUuid()
  const threadId = addToThread(tx, mailbox, { ...reply, subject: email.subject, at })
  const from = parseMailbox(email.from)
  const { subject, textRef, htmlRef, attachments, sizeBytes } = email
  const { emailId, messageId, inReplyTo, references } = reply
  const inserted = sql(tx.db).insertSent.get({
    ...{ uuid, mailboxId: mailbox.id, threadId, emailId, messageId, inReplyTo, subject, textRef, htmlRef, sizeBytes },
    referencesHeader: references.length > 0 ? references.join(' ') : null,
    mailFrom: mailbox.address,
    fromHeader: email.from,
    fromAddress: normaliseAddress(from.kind === 'ok' ? from.address : mailbox.address),
    toHeader: reply.to,
    attachments: attachments ?? '[]',
    labels: '[]',
    createdAt: at,
  })
  if (!inserted) throw new Error('the reply was not stored')
  indexMessage(tx, inserted.id, {
    mailboxId: mailbox.id,
    subject: email.subject,
    sender: email.from,
    body: reply.text,
  })
}
