/** @module The end of an account as a row: closed at once, emptied when all that it had is gone. Decides nothing: see features/privacy/delete-account.ts. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'

const sql = prepared((db) => ({
  isOpen: db.prepare<{ one: number }, [number]>('SELECT 1 AS one FROM accounts WHERE id = ? AND deleted_at IS NULL'),
  close: db.prepare('UPDATE accounts SET deleted_at = ?1, updated_at = ?1 WHERE id = ?2 AND deleted_at IS NULL'),
  // The row stays, so that its number, which old tokens and erased entries of the audit log have, is not given to somebody else.
  empty: db.prepare(
    `UPDATE accounts SET uuid = ?, name = '', email = '', plan = 'free', monthly_quota = NULL, parent_id = NULL, pause_reason = NULL, stripe_customer_id = NULL,
     stripe_subscription_id = NULL, subscription_status = NULL, billing_email = NULL, trial_ends_at = NULL WHERE id = ? AND deleted_at IS NOT NULL`,
  ),
  keepPause: db.prepare(
    `UPDATE accounts SET pause_source = parent.pause_source FROM accounts parent
     WHERE accounts.id = ? AND parent.id = accounts.parent_id AND accounts.pause_source IS NULL`,
  ),
  paused: db.prepare<{ uuid: UuidBytes }, [number]>(
    'SELECT uuid FROM accounts WHERE id = ? AND pause_source IS NOT NULL',
  ),
  subAccounts: db.prepare<{ id: number; uuid: UuidBytes }, [number, number]>(
    'SELECT id, uuid FROM accounts WHERE parent_id = ? AND deleted_at IS NULL ORDER BY id LIMIT ?',
  ),
}))

/** Throws 404 for an account that was deleted: a request that it was let in for may end after that. Call it in the transaction that makes something. */
export function requireOpenAccount(db: Database, accountId: number): void {
  if (!sql(db).isOpen.get(accountId)) throw notFound('account_not_found', 'The account was deleted.')
}

/** Closes an account; false when it is closed already. */
export const closeAccount = (tx: Tx, accountId: number, now: Millis): boolean =>
  sql(tx.db).close.run(now, accountId).changes === 1

/**
 * Takes everything out of the row of a closed account, its public id included. Of one that was paused the end stays, by which its tracked links name it:
 * who is paused must not make them lead on again by deleting the account.
 * @param tagBytes length of that end
 */
export function emptyAccount(tx: Tx, accountId: number, tagBytes: number): void {
  sql(tx.db).keepPause.run(accountId)
  const uuid = newUuid()
  const paused = sql(tx.db).paused.get(accountId)
  if (paused) uuid.set(paused.uuid.subarray(-tagBytes), uuid.length - tagBytes)
  sql(tx.db).empty.run(uuid, accountId)
}

/** Up to `limit` sub-accounts of an account that are not deleted. */
export const subAccountsOf = (db: Database, accountId: number, limit: number): { id: number; uuid: UuidBytes }[] =>
  sql(db).subAccounts.all(accountId, limit)
