/** @module Contacts of a mailbox: senders, their number of messages, and the time of the last one. */
import type { Database } from 'bun:sqlite'
import { belowTimeAndText, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import type { Mailbox } from './mailboxes.ts'
import type { mailboxContacts } from './tables.ts'

export type Contact = Readonly<Omit<typeof mailboxContacts.$inferSelect, 'mailboxId'>>

const sql = prepareStatements((db) => ({
  add: db.prepare(
    `INSERT INTO mailbox_contacts (mailbox_id, address, name, message_count, last_message_at) VALUES (?, ?, ?, 1, ?)
     ON CONFLICT DO UPDATE SET name = coalesce(excluded.name, name), message_count = message_count + 1, last_message_at = excluded.last_message_at`,
  ),
  take: db.prepare(
    'UPDATE mailbox_contacts SET message_count = message_count - 1 WHERE mailbox_id = ? AND address = ?',
  ),
  dropEmpty: db.prepare('DELETE FROM mailbox_contacts WHERE mailbox_id = ? AND address = ? AND message_count = 0'),
  page: db.prepare<Contact, [number, number, string, number, number]>(
    `SELECT address, name, message_count AS messageCount, last_message_at AS lastMessageAt FROM mailbox_contacts WHERE mailbox_id = ? AND (last_message_at, address) < (?, ?)
     ORDER BY last_message_at DESC, address DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM mailbox_contacts WHERE mailbox_id = ?'),
}))

/** Counts a message of a sender, whose address is normalised; empty: it named none. */
export function countContact(tx: Tx, mailboxId: number, address: string, name: string | null, at: Millis): void {
  if (address !== '') sql(tx.db).add.run(mailboxId, address, name, at)
}

/** Uncounts a message of a sender; a contact without messages is deleted. */
export function uncountContact(tx: Tx, mailboxId: number, address: string): void {
  sql(tx.db).take.run(mailboxId, address)
  sql(tx.db).dropEmpty.run(mailboxId, address)
}

export const listContacts = (db: Database, mailbox: Pick<Mailbox, 'id'>, page: RowWindow) => ({
  contacts: sql(db).page.all(mailbox.id, ...belowTimeAndText(page), page.limit, page.offset),
  total: sql(db).count.get(mailbox.id)?.n ?? 0,
})
