/** @module Removes the rows of a deleted account, in batches of some milliseconds. Decides nothing. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { unindexMessage } from '#features/receiving/agent-mailboxes/search.ts'
import { parseAttachments } from '#features/sending/queue/retire.ts'
import { unindexEmail } from '#features/sending/queue/search.ts'
import { deleteEngagement } from '#features/sending/tracking/engage.ts'
import type { TableFacts } from '#platform/db/columns.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'

/** A table with rows of accounts. */
interface AccountTable extends TableFacts {
  readonly table: string
  /** Condition on the rows of account ?1. */
  readonly where: string
}

function listAccountTables(isChild: boolean): AccountTable[] {
  return [...TABLE_FACTS].flatMap(([table, facts]) => {
    const { account } = facts
    if (isChild !== Array.isArray(account)) return []
    if (typeof account === 'string') return [{ ...facts, table, where: `${account} = ?1` }]
    if ('except' in account) return []
    const [column, parent] = account
    return [{ ...facts, table, where: `${column} IN (SELECT id FROM ${parent} WHERE account_id = ?1)` }]
  })
}

/** The tables that state whose rows they have; children precede parents. Those below come first. */
export const ACCOUNT_TABLES: readonly AccountTable[] = [...listAccountTables(true), ...listAccountTables(false)]

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
  for (const remove of [removeEmails, removeMessages]) {
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

function removeTableRows(app: App, tx: Tx, { table, where, ...facts }: AccountTable, accountId: number): number {
  const { content = [], rawMail = [], attachments } = facts
  const columns = [...content, ...rawMail, ...(attachments === undefined ? [] : [attachments])]
  // Sorted by id, so that both statements select the same rows.
  const batch = `${where} ${columns.length > 0 ? 'ORDER BY id' : ''} LIMIT ${ROWS_PER_BATCH}`
  if (columns.length > 0) {
    const rows = tx.db
      .query<Record<string, number | string | null>, [number]>(
        `SELECT ${columns.join(', ')} FROM ${table} WHERE ${batch}`,
      )
      .all(accountId)
    const listRefs = (names: readonly string[]) =>
      rows.flatMap((row) => names.map((name) => row[name]).filter((value) => typeof value === 'number'))
    const files = rows.flatMap((row) => {
      const json = attachments === undefined ? null : row[attachments]
      return typeof json === 'string' ? parseAttachments(json).map(({ ref }) => ref) : []
    })
    dropContent(app, tx, { content: [...listRefs(content), ...files], rawMail: listRefs(rawMail) })
  }
  return tx.db.query(`DELETE FROM ${table} WHERE ${batch}`).run(accountId).changes
}
