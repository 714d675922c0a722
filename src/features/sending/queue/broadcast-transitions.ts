/**
 * @module Changes broadcast recipients that were never attempted: cancels, holds or releases them. Each change is a
 * compare-and-set inside the caller's transaction, as `status` describes.
 */

import { record } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { countBegun, IS_NEVER_ATTEMPTED, requireEmail, settleEmail, uncountSent } from './settle.ts'
import { OPEN_CODES, statusCode, WAITING_CODES } from './status.ts'

/**
 * SQL: the recipient waits and was never attempted, though it may have been held: a broadcast can still withdraw it.
 */
const IS_UNATTEMPTED = `recipients.status IN ${WAITING_CODES} AND attempts = 0`

const sql = prepareStatements((db) => ({
  neverTried: db.prepare<{ id: number }, [number]>(`SELECT id FROM recipients WHERE id = ? AND ${IS_NEVER_ATTEMPTED}`),
  cancelWaiting: db.prepare<{ address: string }, [number, number]>(
    `UPDATE recipients SET status = ?, lane = NULL, next_at = NULL, last_error = NULL WHERE id = ? AND ${IS_UNATTEMPTED} RETURNING address`,
  ),
  holdWaiting: db.prepare(`UPDATE recipients SET next_at = ? WHERE id = ? AND ${IS_UNATTEMPTED}`),
  releaseHeld: db.prepare<{ lane: string }, [number, number, number]>(
    // The time until expiry restarts, as for a retried dead letter, because the receiver did not cause the wait.
    `UPDATE recipients SET next_at = ?1, retry_from = ?1 WHERE id IN (SELECT recipients.id FROM emails JOIN recipients ON email_id = emails.id
     WHERE operation_id = ?2 AND emails.status IN ${OPEN_CODES} AND next_at > ?1 AND ${IS_UNATTEMPTED} LIMIT ?3) RETURNING lane`,
  ),
}))

/**
 * Cancels a waiting recipient that was never attempted, because its broadcast was cancelled: one `cancelled` event.
 * Returns false if the recipient has been attempted or has ended. The caller refunds the quota.
 */
export function cancelWaiting(tx: Tx, at: { recipientId: number; emailId: number; now: Millis }): boolean {
  const email = requireEmail(tx, at.emailId)
  const isNeverAttempted = email.broadcastId !== null && sql(tx.db).neverTried.get(at.recipientId) !== null
  const changed = sql(tx.db).cancelWaiting.get(statusCode('cancelled'), at.recipientId)
  if (!changed) return false
  if (isNeverAttempted) countBegun(tx, email, 1)
  const event = { accountId: email.accountId, at: at.now, emailId: email.id, recipientId: at.recipientId }
  record(tx, { ...event, type: 'cancelled' })
  uncountSent(tx, email, changed)
  settleEmail(tx, email, 'cancelled', at.now)
  return true
}

/**
 * Delays a waiting, never attempted recipient until `until`, because its broadcast was paused. Records no event and
 * changes no status. Returns false, without a change, if the recipient has been attempted or has ended.
 */
export const holdWaiting = (tx: Tx, at: { recipientId: number; until: Millis }): boolean =>
  sql(tx.db).holdWaiting.run(at.until, at.recipientId).changes === 1

/**
 * Releases up to `limit` recipients that `holdWaiting` held: they become due at `now`, with the full time until expiry.
 * Finds them by the operation of the broadcast. Returns the lanes of the released recipients for `App.mailDue`; call it
 * again until there are none. Recipients of a site that is backing off become due too; delivery defers them again.
 */
export const releaseHeld = (tx: Tx, operationId: number, now: Millis, limit = MAX_RELEASED): ReadonlySet<string> =>
  new Set(
    sql(tx.db)
      .releaseHeld.all(now, operationId, limit)
      .map(({ lane }) => lane),
  )

/** Recipients released per transaction; this takes some 10 ms. */
const MAX_RELEASED = 2000
