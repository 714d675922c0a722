/** @module Removes the reference of a newsletter to its operation when retention deletes the operation. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  forget: db.prepare('UPDATE newsletters SET operation_id = NULL WHERE operation_id = ?'),
}))

/** Clears the operation of a newsletter and changes nothing else. */
export const unlinkOperation = (tx: Tx, operationId: number): void => void sql(tx.db).forget.run(operationId)
