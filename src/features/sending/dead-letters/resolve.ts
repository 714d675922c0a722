/** @module Removes the dead letter of a recipient whose outcome became known later. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  delete: db.prepare('DELETE FROM dead_letters WHERE recipient_id = ?'),
}))

/**
 * Deletes the dead letter of a recipient, if there is one; the recipient's event records why. Call it in the
 * transaction that settles the recipient.
 */
export function resolveDeadLetter(tx: Tx, recipientId: number): void {
  sql(tx.db).delete.run(recipientId)
}
