/** @module Takes a recipient off the dead letters when it turned out what had become of it. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  delete: db.prepare('DELETE FROM dead_letters WHERE recipient_id = ?'),
}))

/** Removes the dead letter of a recipient, if it has one: its event tells why. Call it in the transaction that settles the recipient. */
export function resolveDeadLetter(tx: Tx, recipientId: number): void {
  sql(tx.db).delete.run(recipientId)
}
