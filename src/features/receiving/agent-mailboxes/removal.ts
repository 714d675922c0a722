/**
 * @module Deletes messages of mailboxes: by age for retention, whatever their state, and by person for privacy.
 * Corrects counts, and deletes contacts and auto-reply records. Quotations of a person in the messages of others
 * stay.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import {
  type FoundMessages,
  type PersonSearch,
  SCAN_BATCH_SIZE,
  selectOfPerson,
} from '#features/receiving/received/person.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { findMessageById, type MailboxMessage, type RemovableMessage, removeMessage } from './messages.ts'

interface HeaderRow
  extends Pick<MailboxMessage, 'id' | 'mailFrom' | 'fromHeader' | 'fromAddress' | 'toHeader' | 'ccHeader' | 'replyTo'> {
  readonly isOwn: number
}

export interface OldMessage extends RemovableMessage {
  readonly createdAt: Millis
}

type OldRow = Omit<OldMessage, 'attachments'> & { readonly attachments: string }

const SELECT = `SELECT m.id, mailbox_id AS mailboxId, thread_id AS threadId, email_id AS emailId, read_at AS readAt, size_bytes AS sizeBytes, from_address AS fromAddress,
  text_ref AS textRef, stripped_ref AS strippedRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef, m.created_at AS createdAt
  FROM mailbox_messages m JOIN agent_mailboxes b ON b.id = mailbox_id AND deleted_at IS NULL`

const sql = prepareStatements((db) => ({
  after: db.prepare<HeaderRow, [number, number, number]>(
    `SELECT m.id, b.id IS NOT NULL AS isOwn, mail_from AS mailFrom, from_header AS fromHeader, from_address AS fromAddress, to_header AS toHeader,
     cc_header AS ccHeader, reply_to AS replyTo
     FROM mailbox_messages m LEFT JOIN agent_mailboxes b ON b.id = mailbox_id AND account_id = ?2 WHERE m.id > ?1 ORDER BY m.id LIMIT ?3`,
  ),
  // A thread has the subject of its first message.
  renameThread: db.prepare(
    `UPDATE mailbox_threads SET subject = coalesce((SELECT subject FROM mailbox_messages WHERE thread_id = mailbox_threads.id ORDER BY id LIMIT 1), '')
     WHERE id = ?`,
  ),
  contact: db.prepare(
    'DELETE FROM mailbox_contacts WHERE address = ?2 AND mailbox_id IN (SELECT id FROM agent_mailboxes WHERE account_id = ?1)',
  ),
  old: db.prepare<OldRow, [number, number]>(`${SELECT} WHERE m.id > ? ORDER BY m.id LIMIT ?`),
  oldById: db.prepare<OldRow, [number]>(`${SELECT} WHERE m.id = ?`),
  autoReply: db.prepare(
    'DELETE FROM mailbox_auto_replies WHERE address = ?2 AND mailbox_id IN (SELECT id FROM agent_mailboxes WHERE account_id = ?1)',
  ),
}))

/** Scans some messages of all mailboxes for those of the account that are from or to a person. */
export const findMessagesOfPerson = (db: Database, search: PersonSearch): FoundMessages =>
  selectOfPerson(sql(db).after.all(search.after, search.accountId, SCAN_BATCH_SIZE), search)

export function eraseMessages(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  const messages = ids.flatMap((id) => findMessageById(tx.db, id) ?? [])
  for (const message of messages) {
    removeMessage(app, tx, message)
    sql(tx.db).renameThread.run(message.threadId)
  }
  return messages.length
}

/**
 * Deletes the contacts and auto-reply records of an address in the account's mailboxes. Returns the number of rows.
 * @param addressKey normalised
 */
export const eraseCorrespondent = (tx: Tx, accountId: number, addressKey: string): number =>
  sql(tx.db).contact.run(accountId, addressKey).changes + sql(tx.db).autoReply.run(accountId, addressKey).changes

/**
 * Messages after a row id, in order; row ids ascend with created_at. Those of a deleted mailbox are deleted with it.
 */
export const listMessagesAfter = (db: Database, id: number, limit: number): OldMessage[] =>
  sql(db).old.all(id, limit).map(toOldMessage)

export function findOldMessage(db: Database, id: number): OldMessage | undefined {
  const row = sql(db).oldById.get(id)
  return row ? toOldMessage(row) : undefined
}

const toOldMessage = (row: OldRow): OldMessage => ({
  ...row,
  attachments: JSON.parse(row.attachments) as OldMessage['attachments'],
})
