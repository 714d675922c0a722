/** @module Adds a recipient to the dead letters, in the transaction of its final outcome. */

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
}))

export function addDeadLetter(
  tx: Tx,
  letter: { emailId: number; recipientId: number; reason: DeadLetterReason; lastError: string | undefined; at: Millis },
): void {
  sql(tx.db).insert.run(letter.recipientId, letter.reason, letter.lastError ?? null, letter.at, letter.emailId)
}
