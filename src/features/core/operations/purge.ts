/** @module Operations in order of their age, for retention, and their removal. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** An operation as retention needs it. */
export interface OldOperation {
  readonly id: number
  readonly status: string
  readonly createdAt: Millis
  readonly expiresAt: Millis
}

const SELECT = 'SELECT id, status, created_at AS createdAt, expires_at AS expiresAt FROM operations'

const sql = prepareStatements((db) => ({
  after: db.prepare<OldOperation, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<OldOperation, [number]>(`${SELECT} WHERE id = ?`),
  // The row with the largest id stays: an id is never given to another operation, because emails name it.
  delete: db.prepare('DELETE FROM operations WHERE id = ? AND id < (SELECT max(id) FROM operations)'),
}))

/** Operations after a row id, in order; a row id grows with created_at. */
export const listOperationsAfter = (db: Database, id: number, limit: number): OldOperation[] =>
  sql(db).after.all(id, limit)

export const findOldOperation = (db: Database, id: number): OldOperation | undefined =>
  sql(db).byId.get(id) ?? undefined

/** Whether an operation is over, and past its expiry at `now`. */
export const isExpired = ({ status, expiresAt }: OldOperation, now: Millis): boolean =>
  (status === 'completed' || status === 'failed') && expiresAt < now

/** Removes an operation that nothing names any more; false for the newest of all, which stays. */
export const deleteOperation = (tx: Tx, id: number): boolean => sql(tx.db).delete.run(id).changes === 1
