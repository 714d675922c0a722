/**
 * @module Deletes messages of mailboxes: those of a deleted mailbox, and by person for privacy. Corrects counts, and
 * deletes contacts and auto-reply records. Quotations of a person in the messages of others stay.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import {
  type FoundMessages,
  type PersonSearch,
  SCAN_BATCH_SIZE,
  selectOfPerson,
} from '#features/receiving/received/person.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { findMessageById, type MailboxMessage, removeMessage } from './messages.ts'

interface HeaderRow
  extends Pick<MailboxMessage, 'id' | 'mailFrom' | 'fromHeader' | 'fromAddress' | 'toHeader' | 'ccHeader' | 'replyTo'> {
  readonly isOwn: number
}

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
  autoReply: db.prepare(
    'DELETE FROM mailbox_auto_replies WHERE address = ?2 AND mailbox_id IN (SELECT id FROM agent_mailboxes WHERE account_id = ?1)',
  ),
  deleted: db.prepare<{ id: number; uuid: Uint8Array }, [number]>(
    'SELECT id, uuid FROM agent_mailboxes INDEXED BY agent_mailboxes_deleted WHERE deleted_at IS NOT NULL AND id > ? ORDER BY id LIMIT 1',
  ),
  someMessages: db.prepare<{ id: number }, [number, number]>(
    'SELECT id FROM mailbox_messages INDEXED BY mailbox_messages_message_id WHERE mailbox_id = ? LIMIT ?',
  ),
  deleteThreads: db.prepare(
    'DELETE FROM mailbox_threads WHERE id IN (SELECT id FROM mailbox_threads WHERE mailbox_id = ? LIMIT ?)',
  ),
  deleteContacts: db.prepare(
    'DELETE FROM mailbox_contacts WHERE mailbox_id = ?1 AND address IN (SELECT address FROM mailbox_contacts WHERE mailbox_id = ?1 LIMIT ?2)',
  ),
  deleteAutoReplies: db.prepare(
    'DELETE FROM mailbox_auto_replies WHERE mailbox_id = ?1 AND address IN (SELECT address FROM mailbox_auto_replies WHERE mailbox_id = ?1 LIMIT ?2)',
  ),
  deleteMailbox: db.prepare('DELETE FROM agent_mailboxes WHERE id = ? AND deleted_at IS NOT NULL'),
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

/** Deletes what an account's mailboxes have of a normalised address. Returns the number of rows. */
export const eraseCorrespondent = (tx: Tx, accountId: number, addressKey: string): number =>
  sql(tx.db).contact.run(accountId, addressKey).changes + sql(tx.db).autoReply.run(accountId, addressKey).changes

/** Rows deleted in one transaction, which takes some milliseconds. */
const BATCH_SIZE = 50

/**
 * Deletes the rows of deleted mailboxes, batch by batch, with their search index entries and content references;
 * returns the number of mailboxes. Never called concurrently.
 */
export async function removeDeletedMailboxes(app: App): Promise<number> {
  let removed = 0
  for (let after = 0; ; ) {
    const mailbox = sql(app.db).deleted.get(after)
    if (!mailbox) return removed
    after = mailbox.id
    while (!(await app.commit.writeFromReserve((tx) => removeBatch(app, tx, mailbox.id))));
    app.log.info({ mailbox: formatUuid(mailbox.uuid) }, 'deleted mailbox removed with its messages')
    removed++
  }
}

/** Deletes some rows of a deleted mailbox. Returns true when all rows, including the mailbox itself, are deleted. */
function removeBatch(app: App, tx: Tx, mailboxId: number): boolean {
  const { someMessages, deleteThreads, deleteContacts, deleteAutoReplies, deleteMailbox } = sql(tx.db)
  const ids = someMessages.all(mailboxId, BATCH_SIZE).map(({ id }) => id)
  for (const message of ids.flatMap((id) => findMessageById(tx.db, id) ?? [])) removeMessage(app, tx, message)
  if (ids.length === BATCH_SIZE) return false
  for (const remove of [deleteThreads, deleteContacts, deleteAutoReplies])
    if (remove.run(mailboxId, BATCH_SIZE).changes === BATCH_SIZE) return false
  deleteMailbox.run(mailboxId)
  return true
}
