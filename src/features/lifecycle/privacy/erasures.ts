/**
 * @module Stores running erasures: account, progress, and emails with other open recipients. The only writer of
 * `erasures` and `erasure_emails`.
 */
import type { Database } from 'bun:sqlite'
import { toErasedKey } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import type { erasures } from './tables.ts'

export type Erasure = Readonly<Omit<typeof erasures.$inferSelect, 'createdAt'>>

const COLUMNS =
  'erasures.id, erasures.account_id AS accountId, operation_id AS operationId, address, step, cursor, rows, due_at AS dueAt'

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, (number | string)[]>(
    `INSERT INTO erasures (account_id, operation_id, address, step, cursor, rows, due_at, created_at) VALUES (?, ?, ?, 0, 0, 0, ?, ?) RETURNING id`,
  ),
  byId: db.prepare<Erasure, [number]>(`SELECT ${COLUMNS} FROM erasures WHERE id = ?`),
  ofAddress: db.prepare<Erasure & { operationUuid: UuidBytes }, [number, string]>(
    `SELECT ${COLUMNS}, uuid AS operationUuid
     FROM erasures JOIN operations ON operations.id = operation_id WHERE erasures.account_id = ? AND address = ?`,
  ),
  next: db.prepare<Erasure, []>(`SELECT ${COLUMNS} FROM erasures ORDER BY due_at, id LIMIT 1`),
  move: db.prepare<{ rows: number }, number[]>(
    'UPDATE erasures SET step = ?, cursor = ?, rows = rows + ?, due_at = ? WHERE id = ? AND step = ? AND cursor = ? RETURNING rows',
  ),
  restart: db.prepare('UPDATE erasures SET address = ?, step = 0, cursor = 0, due_at = ? WHERE id = ?'),
  setAddress: db.prepare('UPDATE erasures SET address = ? WHERE id = ?'),
  delete: db.prepare('DELETE FROM erasures WHERE id = ?'),
  addEmail: db.prepare('INSERT INTO erasure_emails (erasure_id, email_id) VALUES (?, ?) ON CONFLICT DO NOTHING'),
  emailsAfter: db.prepare<{ emailId: number }, [number, number, number]>(
    'SELECT email_id AS emailId FROM erasure_emails WHERE erasure_id = ? AND email_id > ? ORDER BY email_id LIMIT ?',
  ),
  removeEmail: db.prepare('DELETE FROM erasure_emails WHERE erasure_id = ? AND email_id = ?'),
  removeEmails: db.prepare('DELETE FROM erasure_emails WHERE erasure_id = ?'),
}))

/**
 * Inserts an erasure.
 * @param dueAt when its first step is due
 */
export function insertErasure(
  tx: Tx,
  erasure: Pick<Erasure, 'accountId' | 'operationId' | 'address' | 'dueAt'>,
  now: Millis,
): number {
  const { accountId, operationId, address, dueAt } = erasure
  const id = sql(tx.db).insert.get(accountId, operationId, address, dueAt, now)?.id
  if (id === undefined) throw new Error('the erasure was not stored')
  // Removes rows that are left of an earlier erasure with the same id, which was removed with its account.
  sql(tx.db).removeEmails.run(id)
  return id
}

/** The running erasure of an address. An erasure that only waits for other recipients counts as complete. */
export const findErasure = (
  db: Database,
  accountId: number,
  addressKey: string,
): (Erasure & { readonly operationUuid: UuidBytes }) | undefined =>
  sql(db).ofAddress.get(accountId, addressKey) ??
  sql(db).ofAddress.get(accountId, toErasedKey(db, accountId, addressKey)) ??
  undefined

export const findErasureById = (db: Database, id: number): Erasure | undefined => sql(db).byId.get(id) ?? undefined

/** The erasure whose next step is due first. */
export const findNextErasure = (db: Database): Erasure | undefined => sql(db).next.get() ?? undefined

/** Where an erasure continues; `rows`: those erased since the previous position. */
export type ErasurePosition = Pick<Erasure, 'step' | 'cursor' | 'rows' | 'dueAt'>

/**
 * Stores the progress and returns the total of rows; undefined if the stored position is no longer that of `erasure`.
 */
export const updateErasure = (tx: Tx, { id, step, cursor }: Erasure, to: ErasurePosition): number | undefined =>
  sql(tx.db).move.get(to.step, to.cursor, to.rows, to.dueAt, id, step, cursor)?.rows

/**
 * Restarts an erasure to include rows created since it began.
 * @param address the result of `toSuppressionKey`; the stored address may be a hash by now
 */
export const restartErasure = (tx: Tx, { id }: Erasure, address: string, dueAt: Millis): void =>
  void sql(tx.db).restart.run(address, dueAt, id)

/** Replaces the address with its keyed hash. */
export const hashAddress = (tx: Tx, { id, accountId, address }: Erasure): void =>
  void sql(tx.db).setAddress.run(toErasedKey(tx.db, accountId, address), id)

/** Drops the address; a later erasure of this address is then a separate one. */
export const dropAddress = (tx: Tx, { id, operationId }: Erasure): void =>
  void sql(tx.db).setAddress.run(String(operationId), id)

export const deleteErasure = (tx: Tx, { id }: Erasure): void => void sql(tx.db).delete.run(id)

/** Records an email to check again. */
export const recordOpenEmail = (tx: Tx, { id }: Erasure, emailId: number): void =>
  void sql(tx.db).addEmail.run(id, emailId)

/** A batch of the emails to check again, after a row id. */
export const listOpenEmails = (db: Database, { id }: Erasure, after: number, limit: number): number[] =>
  sql(db)
    .emailsAfter.all(id, after, limit)
    .map(({ emailId }) => emailId)

export const removeOpenEmail = (tx: Tx, { id }: Erasure, emailId: number): void =>
  void sql(tx.db).removeEmail.run(id, emailId)
