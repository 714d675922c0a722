/** @module Adds dead letters and removes resolved ones. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'

export const DEAD_LETTER_REASONS = ['expired', 'failed', 'uncertain'] as const
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number]

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    `INSERT INTO dead_letters (account_id, email_id, recipient_id, reason, last_error, failed_at)
     SELECT account_id, id, ?, ?, ?, ? FROM emails WHERE id = ?`,
  ),
  delete: db.prepare('DELETE FROM dead_letters WHERE recipient_id = ?'),
}))

export function addDeadLetter(
  tx: Tx,
  letter: { emailId: number; recipientId: number; reason: DeadLetterReason; lastError: string | undefined; at: Millis },
): void {
  sql(tx.db).insert.run(letter.recipientId, letter.reason, letter.lastError ?? null, letter.at, letter.emailId)
}

/** Deletes the dead letter of a recipient, if there is one. Call it in the transaction that settles the recipient. */
export function resolveDeadLetter(tx: Tx, recipientId: number): void {
  sql(tx.db).delete.run(recipientId)
}
