/** @module Reads whether operators hold single emails, and ends such a hold with its email. Never adds one. */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  any: db.prepare<{ id: number }, []>('SELECT id FROM queue_rules WHERE email_id IS NOT NULL LIMIT 1'),
  delete: db.prepare('DELETE FROM queue_rules WHERE email_id = ?'),
}))

/** Whether an operator holds any single email, so that claims must look. */
export const hasEmailHolds = (db: Database): boolean => sql(db).any.get() !== null

/**
 * Ends the hold of an email that has ended, so that it is no longer listed, and does not hold the email if it is tried
 * again.
 */
export function endEmailHold(tx: Tx, emailId: number): void {
  if (hasEmailHolds(tx.db)) sql(tx.db).delete.run(emailId)
}
