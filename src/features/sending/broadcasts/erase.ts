/**
 * @module Removes contacts from open broadcasts inside the caller's transaction: one person, or everybody when the
 * account is deleted. Removed recipients count as skipped, and their quota is refunded.
 */
import type { Database } from 'bun:sqlite'
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { advanceBroadcast, type Broadcast, findBroadcastById, IS_OPEN, stateName } from './states.ts'

type SkippingBroadcast = Pick<Broadcast, 'id' | 'accountId' | 'quotaMonth'>

const sql = prepareStatements((db) => ({
  after: db.prepare<{ contactId: number; email: string }, [number, number, number]>(
    `SELECT contact_id AS contactId, email FROM broadcast_recipients WHERE broadcast_id = ? AND contact_id > ? ORDER BY contact_id LIMIT ?`,
  ),
  next: db.prepare<{ id: number }, [number, number]>(
    `SELECT id FROM broadcasts INDEXED BY broadcasts_open WHERE ${IS_OPEN} AND account_id = ? AND id > ? ORDER BY id LIMIT 1`,
  ),
  waiting: db.prepare<SkippingBroadcast, [number]>(
    `SELECT id, account_id AS accountId, quota_month AS quotaMonth FROM broadcasts INDEXED BY broadcasts_open WHERE ${IS_OPEN} AND account_id = ?
     AND EXISTS (SELECT 1 FROM broadcast_recipients WHERE broadcast_id = broadcasts.id) LIMIT 1`,
  ),
  removeSome: db.prepare(
    'DELETE FROM broadcast_recipients WHERE broadcast_id = ?1 AND contact_id IN (SELECT contact_id FROM broadcast_recipients WHERE broadcast_id = ?1 LIMIT ?2)',
  ),
  remove: db.prepare('DELETE FROM broadcast_recipients WHERE broadcast_id = ? AND contact_id = ?'),
}))

/** The next open broadcast of an account by row id; undefined when there is none. */
export const findNextOpenBroadcast = (db: Database, accountId: number, after: number): number | undefined =>
  sql(db).next.get(accountId, after)?.id

/** Whether the recipient snapshot is still being taken, which ends soon; until then recipients are not counted. */
export function isTakingSnapshot(db: Database, broadcastId: number): boolean {
  const broadcast = findBroadcastById(db, broadcastId)
  return broadcast !== undefined && stateName(broadcast.state) === 'fixing'
}

/** Rows examined in one tick; this takes some 5 ms. */
const SCAN_BATCH_SIZE = 5000

/**
 * Scans a batch of the recipients that are not enqueued yet, starting after a contact. Returns the row ids of matching
 * contacts.
 * @returns `next` the contact to continue after; undefined at the end
 */
export function findWaitingRecipients(
  db: Database,
  scan: { readonly broadcastId: number; readonly after: number; readonly is: (address: string) => boolean },
): { readonly contactIds: readonly number[]; readonly next: number | undefined } {
  const rows = sql(db).after.all(scan.broadcastId, scan.after, SCAN_BATCH_SIZE)
  return {
    contactIds: rows.filter(({ email }) => scan.is(email)).map(({ contactId }) => contactId),
    next: rows.length < SCAN_BATCH_SIZE ? undefined : rows.at(-1)?.contactId,
  }
}

/** Skips contacts of a broadcast whose snapshot is complete. Returns how many were skipped. */
export function skipRecipients(app: App, tx: Tx, broadcastId: number, contactIds: readonly number[]): number {
  const broadcast = findBroadcastById(tx.db, broadcastId)
  if (!broadcast) return 0
  const removed = contactIds.filter((id) => sql(tx.db).remove.run(broadcastId, id).changes === 1).length
  return countSkipped(app, tx, broadcast, removed)
}

/** Removes up to `limit` rows of a recipient snapshot; returns their number. */
export const removeSnapshotRows = (tx: Tx, broadcastId: number, limit: number): number =>
  sql(tx.db).removeSome.run(broadcastId, limit).changes

/** Skips up to `limit` recipients that are not enqueued. Returns how many were skipped. */
export const skipWaiting = (app: App, tx: Tx, broadcast: SkippingBroadcast, limit: number): number =>
  countSkipped(app, tx, broadcast, removeSnapshotRows(tx, broadcast.id, limit))

function countSkipped(app: App, tx: Tx, { id, accountId, quotaMonth }: SkippingBroadcast, removed: number): number {
  if (removed === 0) return 0
  if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, removed)
  advanceBroadcast(app, tx, id, { handedOver: 0, leftOut: removed })
  return removed
}

/** Recipients of a deleted account that are skipped in one transaction; this takes some 5 ms. */
const BATCH_SIZE = 1000

/** Skips a batch of the waiting recipients of an account's broadcasts; returns their number, 0 when none is left. */
export function skipRecipientBatch(app: App, tx: Tx, accountId: number): number {
  const broadcast = sql(tx.db).waiting.get(accountId)
  return broadcast ? skipWaiting(app, tx, broadcast, BATCH_SIZE) : 0
}
