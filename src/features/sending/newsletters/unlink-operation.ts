/** @module Lets the newsletter that an operation sent forget it, when the operation goes by its age. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  forget: db.prepare('UPDATE newsletters SET operation_id = NULL WHERE operation_id = ?'),
}))

/** The newsletter stays as it is, and names no operation any more. */
export const unlinkOperation = (tx: Tx, operationId: number): void => void sql(tx.db).forget.run(operationId)
