/**
 * @module Hides from a consistency check the accounts that are being deleted: their rows do not add up until the
 * deletion ends.
 */
import type { Database } from 'bun:sqlite'

/**
 * Tables whose rows belong to an account through a row of another table. The condition selects the rows whose account
 * is not being deleted; it reads the view of the other table, so parents come before children.
 */
const CHILD_TABLES: readonly (readonly [table: string, isKept: string])[] = [
  ['recipients', 'email_id IN (SELECT id FROM emails)'],
  ['link_clicks', 'email_id IN (SELECT id FROM emails)'],
  ['opens', 'recipient_id IN (SELECT id FROM recipients)'],
  ['click_marks', 'recipient_id IN (SELECT id FROM recipients)'],
  ['webhook_deliveries', 'webhook_id IN (SELECT id FROM webhooks)'],
  ['mailbox_messages', 'mailbox_id IN (SELECT id FROM agent_mailboxes)'],
  ['mailbox_threads', 'mailbox_id IN (SELECT id FROM agent_mailboxes)'],
  ['mailbox_contacts', 'mailbox_id IN (SELECT id FROM agent_mailboxes)'],
  ['broadcast_recipients', 'broadcast_id IN (SELECT id FROM broadcasts)'],
]

/**
 * Shadows tables with temporary views that omit the rows of accounts that are being deleted; does nothing when there
 * are none.
 */
export function hideDeletedAccounts(db: Database): void {
  if (!db.query('SELECT account_id FROM account_deletions LIMIT 1').get()) return
  const isKept = 'NOT IN (SELECT account_id FROM main.account_deletions)'
  const tables = db
    .query<{ name: string }, []>(
      `SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
       WHERE t.type = 'table' AND c.name = 'account_id' AND t.name <> 'account_deletions'`,
    )
    .all()
  for (const { name } of tables)
    db.run(`CREATE TEMP VIEW ${name} AS SELECT * FROM main.${name} WHERE account_id IS NULL OR account_id ${isKept}`)
  db.run(`CREATE TEMP VIEW accounts AS SELECT * FROM main.accounts WHERE id ${isKept}`)
  for (const [name, where] of CHILD_TABLES)
    db.run(`CREATE TEMP VIEW ${name} AS SELECT * FROM main.${name} WHERE ${where}`)
}
