/** @module Removes the rows of a deleted account, in batches of some milliseconds. Decides nothing. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent, STORES, type StoreName } from '#features/core/content-gc/garbage.ts'
import { unindexMessage } from '#features/receiving/agent-mailboxes/search.ts'
import { parseAttachments } from '#features/sending/queue/retire.ts'
import { unindexEmail } from '#features/sending/queue/search.ts'
import { deleteEngagement } from '#features/sending/tracking/delete-engagement.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { ACCOUNT_TABLES, type AccountTable } from './account-tables.ts'

/** Rows removed per transaction, emails and others; either takes some 5 ms. */
const EMAILS_PER_BATCH = 50
const ROWS_PER_BATCH = 200

interface EmailRow {
  readonly id: number
  readonly htmlRef: number | null
  readonly textRef: number | null
  readonly attachments: string | null
}

interface MessageRow extends EmailRow {
  readonly strippedRef: number | null
  readonly rawRef: number | null
}

const sql = prepareStatements((db) => ({
  // All emails of a broadcast refer to the bodies of its sources, so the same reference is recorded several times,
  // which is harmless.
  emails: db.prepare<EmailRow, [number, number]>(
    'SELECT id, html_ref AS htmlRef, text_ref AS textRef, attachments FROM emails WHERE account_id = ? ORDER BY created_at, id LIMIT ?',
  ),
  recipients: db.prepare<{ id: number }, [number]>('SELECT id FROM recipients WHERE email_id = ?'),
  deleteRecipients: db.prepare('DELETE FROM recipients WHERE email_id = ?'),
  deleteAttempts: db.prepare('DELETE FROM attempts WHERE email_id = ?'),
  deleteEmail: db.prepare('DELETE FROM emails WHERE id = ?'),
  contacts: db.prepare<{ id: number }, [number, number]>('SELECT id FROM contacts WHERE account_id = ? LIMIT ?'),
  deleteAsks: db.prepare('DELETE FROM confirmation_asks WHERE contact_id = ?'),
  deleteContact: db.prepare('DELETE FROM contacts WHERE id = ?'),
  messages: db.prepare<MessageRow, [number, number]>(
    `SELECT mailbox_messages.id, html_ref AS htmlRef, text_ref AS textRef, stripped_ref AS strippedRef, raw_ref AS rawRef, attachments
     FROM agent_mailboxes JOIN mailbox_messages ON mailbox_id = agent_mailboxes.id WHERE account_id = ? LIMIT ?`,
  ),
  deleteMessage: db.prepare('DELETE FROM mailbox_messages WHERE id = ?'),
}))

/** Row ids of the emails that the next batch removes. */
export const findNextEmails = (db: Database, accountId: number): number[] =>
  sql(db)
    .emails.all(accountId, EMAILS_PER_BATCH)
    .map(({ id }) => id)

/**
 * Removes one batch of the account's rows. Returns how many were removed, without their dependent rows; 0 when none are
 * left.
 */
export function removeAccountRows(app: App, tx: Tx, accountId: number): number {
  for (const remove of [removeEmails, removeContacts, removeMessages]) {
    const rows = remove(app, tx, accountId)
    if (rows > 0) return rows
  }
  for (const table of ACCOUNT_TABLES) {
    const rows = removeTableRows(app, tx, table, accountId)
    if (rows > 0) return rows
  }
  return 0
}

function removeEmails(app: App, tx: Tx, accountId: number): number {
  const statements = sql(tx.db)
  const emails = statements.emails.all(accountId, EMAILS_PER_BATCH)
  for (const { id, htmlRef, textRef, attachments } of emails) {
    deleteEngagement(
      tx,
      id,
      statements.recipients.all(id).map((recipient) => recipient.id),
    )
    statements.deleteAttempts.run(id)
    statements.deleteRecipients.run(id)
    statements.deleteEmail.run(id)
    unindexEmail(tx, id)
    dropContent(app, tx, { content: [htmlRef, textRef, ...parseAttachments(attachments).map(({ ref }) => ref)] })
  }
  return emails.length
}

function removeContacts(_: App, tx: Tx, accountId: number): number {
  const statements = sql(tx.db)
  const contacts = statements.contacts.all(accountId, ROWS_PER_BATCH)
  for (const { id } of contacts) {
    statements.deleteAsks.run(id)
    statements.deleteContact.run(id)
  }
  return contacts.length
}

function removeMessages(app: App, tx: Tx, accountId: number): number {
  const messages = sql(tx.db).messages.all(accountId, EMAILS_PER_BATCH)
  for (const { id, htmlRef, textRef, strippedRef, rawRef, attachments } of messages) {
    unindexMessage(tx, id)
    sql(tx.db).deleteMessage.run(id)
    const files = parseAttachments(attachments).map(({ ref }) => ref)
    dropContent(app, tx, { content: [htmlRef, textRef, strippedRef, ...files], rawMail: [rawRef] })
  }
  return messages.length
}

function removeTableRows(
  app: App,
  tx: Tx,
  { table, where, refs, attachments }: AccountTable,
  accountId: number,
): number {
  if (refs) dropRefs(app, tx, { table, where, refs, ...(attachments !== undefined && { attachments }) }, accountId)
  // Sorted by id, so that both statements select the same rows.
  return tx.db
    .query(`DELETE FROM ${table} WHERE ${where} ${refs ? 'ORDER BY id' : ''} LIMIT ${ROWS_PER_BATCH}`)
    .run(accountId).changes
}

function dropRefs(app: App, tx: Tx, { table, where, refs = {}, attachments }: AccountTable, accountId: number): void {
  const columns = [...Object.values(refs).flat(), ...(attachments === undefined ? [] : [attachments])]
  const rows = tx.db
    .query<Record<string, number | string | null>, [number]>(
      `SELECT ${columns.join(', ')} FROM ${table} WHERE ${where} ORDER BY id LIMIT ${ROWS_PER_BATCH}`,
    )
    .all(accountId)
  const refIn = (row: (typeof rows)[number], column: string): number | null => {
    const value = row[column]
    return typeof value === 'number' ? value : null
  }
  const listRefs = (store: StoreName): (number | null)[] =>
    rows.flatMap((row) => (refs[store] ?? []).map((column) => refIn(row, column)))
  const files = rows.flatMap((row) => {
    const json = attachments === undefined ? null : row[attachments]
    return typeof json === 'string' ? parseAttachments(json).map(({ ref }) => ref) : []
  })
  dropContent(app, tx, {
    ...Object.fromEntries(STORES.map((store) => [store, listRefs(store)])),
    content: [...listRefs('content'), ...files],
  })
}
