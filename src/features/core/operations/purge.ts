/** @module Lists operations by age for retention, and deletes them. */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { operations } from './tables.ts'

/** The fields of an operation that retention reads. */
export type OldOperation = Readonly<Pick<typeof operations.$inferSelect, 'id' | 'status' | 'createdAt' | 'expiresAt'>>

const SELECT = 'SELECT id, status, created_at AS createdAt, expires_at AS expiresAt FROM operations'

const sql = prepareStatements((db) => ({
  after: db.prepare<OldOperation, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<OldOperation, [number]>(`${SELECT} WHERE id = ?`),
  // The row with the largest id stays: its id would otherwise be reused, and emails refer to operations by id.
  delete: db.prepare('DELETE FROM operations WHERE id = ? AND id < (SELECT max(id) FROM operations)'),
}))

/** Operations after a row id, in order; row ids grow with created_at. */
export const listOperationsAfter = (db: Database, id: number, limit: number): OldOperation[] =>
  sql(db).after.all(id, limit)

export const findOldOperation = (db: Database, id: number): OldOperation | undefined =>
  sql(db).byId.get(id) ?? undefined

/** Whether an operation has ended and expired at `now`. */
export const isExpired = ({ status, expiresAt }: OldOperation, now: Millis): boolean =>
  (status === 'completed' || status === 'failed') && expiresAt < now

/** Deletes an operation to which nothing refers any more. Returns false for the newest operation, which stays. */
export const deleteOperation = (tx: Tx, id: number): boolean => sql(tx.db).delete.run(id).changes === 1
