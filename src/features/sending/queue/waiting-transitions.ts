/**
 * @module Changes waiting recipients without an attempt: ends those that may no longer get mail, those whose deadline
 * has come, and cancelled ones; releases drafts; moves scheduled ones to another time; cancels, holds and releases those of a broadcast
 * that were never attempted. Each change is a compare-and-set inside the caller's transaction, as `status` describes.
 * The caller refunds the quota.
 */
import { type EventData, record } from '#features/core/events/record.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import {
  type ChangedRecipient,
  countBegun,
  countBounced,
  type EmailRow,
  IS_NEVER_ATTEMPTED,
  recordOf,
  requireEmail,
  settleEmail,
  type TransitionAt,
  uncountSent,
} from './settle.ts'
import { OPEN_CODES, type Status, statusCode, statusName, WAITING_CODES } from './status.ts'

const SCHEDULED = statusCode('scheduled')
const DRAFT = statusCode('draft')
const IS_WAITING = `id = ? AND status IN ${WAITING_CODES}`
const endAs = (status: Status): string => `status = ${statusCode(status)}, lane = NULL, next_at = NULL`

const sql = prepareStatements((db) => ({
  neverTried: db.prepare<{ id: number }, [number]>(`SELECT id FROM recipients WHERE id = ? AND ${IS_NEVER_ATTEMPTED}`),
  reject: db.prepare<ChangedRecipient, [string, number]>(
    `UPDATE recipients SET ${endAs('rejected')}, smtp_response = NULL, last_error = ?, sending_ip = NULL WHERE ${IS_WAITING} RETURNING address`,
  ),
  bounce: db.prepare<ChangedRecipient, [string, string, number]>(
    `UPDATE recipients SET ${endAs('bounced')}, last_error = ?, bounce_type = 'soft', bounce_category = ? WHERE ${IS_WAITING} RETURNING address`,
  ),
  cancelOne: db.prepare<ChangedRecipient, [string | null, number]>(
    `UPDATE recipients SET ${endAs('cancelled')}, last_error = coalesce(?, last_error) WHERE ${IS_WAITING} RETURNING address`,
  ),
  waiting: db.prepare<{ id: number }, [number]>(`SELECT id FROM recipients WHERE ${IS_WAITING}`),
  cancel: db.prepare<ChangedRecipient, [number]>(
    `UPDATE recipients SET ${endAs('cancelled')} WHERE email_id = ? AND status IN (${SCHEDULED}, ${DRAFT}) RETURNING address`,
  ),
  // The time until expiry begins now, because the receiver did not cause the wait.
  release: db.prepare<{ lane: string }, [number, Millis, number, number]>(
    `UPDATE recipients SET status = ?1, next_at = ?2, retry_from = ?2, expires_at = expires_at + ?2 - ?3
     WHERE email_id = ?4 AND status = ${DRAFT} RETURNING lane`,
  ),
  reschedule: db.prepare<{ lane: string }, [Millis, number]>(
    `UPDATE recipients SET next_at = ?1, expires_at = expires_at - next_at + ?1 WHERE email_id = ?2 AND status = ${SCHEDULED} RETURNING lane`,
  ),
  lastError: db.prepare<{ lastError: string | null }, [number]>(
    'SELECT last_error AS lastError FROM recipients WHERE id = ?',
  ),
  expiring: db.prepare<{ recipientId: number; emailId: number }, [number, number]>(
    `SELECT id AS recipientId, email_id AS emailId FROM recipients INDEXED BY recipients_expiring
     WHERE expires_at <= ? AND next_at IS NOT NULL AND status IN ${WAITING_CODES} ORDER BY expires_at LIMIT ?`,
  ),
  nextExpiry: db.prepare<{ at: number | null }, [number]>(
    `SELECT min(expires_at) AS at FROM recipients INDEXED BY recipients_expiring WHERE expires_at > ? AND next_at IS NOT NULL`,
  ),
  setScheduledAt: db.prepare('UPDATE emails SET scheduled_at = ? WHERE id = ?'),
  cancelWaiting: db.prepare<ChangedRecipient, [number]>(
    `UPDATE recipients SET ${endAs('cancelled')}, last_error = NULL WHERE id = ? AND ${IS_UNATTEMPTED} RETURNING address`,
  ),
  holdWaiting: db.prepare(`UPDATE recipients SET next_at = ? WHERE id = ? AND ${IS_UNATTEMPTED}`),
  releaseHeld: db.prepare<{ lane: string }, [number, number, number]>(
    // The time until expiry restarts, as for a retried dead letter, because the receiver did not cause the wait.
    `UPDATE recipients SET next_at = ?1, retry_from = ?1 WHERE id IN (SELECT recipients.id FROM emails JOIN recipients ON email_id = emails.id
     WHERE operation_id = ?2 AND emails.status IN ${OPEN_CODES} AND next_at > ?1 AND ${IS_UNATTEMPTED} LIMIT ?3) RETURNING lane`,
  ),
}))

/** Whether a recipient belongs to a broadcast and does not count as begun yet. */
const isUnbegun = (tx: Tx, { broadcastId }: EmailRow, { recipientId }: TransitionAt): boolean =>
  broadcastId !== null && sql(tx.db).neverTried.get(recipientId) !== null

/** Ends a waiting recipient as `update` does, with one event; false if `update` finds it no longer waiting. */
function endWaiting(
  tx: Tx,
  at: TransitionAt,
  status: 'rejected' | 'bounced' | 'cancelled',
  update: () => ChangedRecipient | null,
  data?: EventData,
): boolean {
  const email = requireEmail(tx, at.emailId)
  const isNew = isUnbegun(tx, email, at)
  const changed = update()
  if (!changed) return false
  if (isNew) countBegun(tx, email, 1)
  recordOf(tx, email, at, status, data)
  if (status === 'bounced') countBounced(tx, email, changed, at.now, false)
  else uncountSent(tx, email, changed)
  settleEmail(tx, email, status, at.now)
  return true
}

/** Rejects a waiting recipient without an attempt: one `rejected` event. */
export function rejectRecipient(
  tx: Tx,
  at: TransitionAt,
  { lastError, data }: { lastError: string; data: EventData },
): void {
  const update = () => sql(tx.db).reject.get(lastError, at.recipientId)
  if (!endWaiting(tx, at, 'rejected', update, data)) throw new Error(`recipient ${at.recipientId} is not waiting`)
}

/** Ends a waiting recipient as a soft bounce without an attempt: one `bounced` event. False if it is not waiting. */
export function bounceWaiting(
  tx: Tx,
  at: TransitionAt,
  { reason, category, rule }: { readonly reason: string; readonly category: string; readonly rule: string },
): boolean {
  const data = { reason, rule, bounce_type: 'soft', bounce_category: category }
  return endWaiting(tx, at, 'bounced', () => sql(tx.db).bounce.get(reason, category, at.recipientId), data)
}

/**
 * Cancels a waiting recipient, whether or not it was attempted; false if it is not waiting. If the email has other
 * recipients, this one is rejected instead, so that the email's status depends only on the others. A broadcast
 * recipient is also rejected, because a broadcast counts its cancelled recipients and may already have ended. The
 * caller refunds the quota.
 */
export function cancelRecipient(
  tx: Tx,
  at: TransitionAt,
  why: { readonly lastError: string; readonly data: EventData; readonly isErasure?: true },
): boolean {
  const email = requireEmail(tx, at.emailId)
  if (!sql(tx.db).waiting.get(at.recipientId)) return false
  if (email.recipientCount > 1 || email.broadcastId !== null) {
    rejectRecipient(tx, at, why)
    return true
  }
  // An erasure would have to delete the reason again.
  const reason = why.isErasure ? undefined : why
  const update = () => sql(tx.db).cancelOne.get(reason?.lastError ?? null, at.recipientId)
  return endWaiting(tx, at, 'cancelled', update, reason?.data)
}

/** Waiting recipients whose deadline has come, up to `limit`. */
export const listExpiring = (
  db: Tx['db'],
  now: Millis,
  limit: number,
): { readonly recipientId: number; readonly emailId: number }[] => sql(db).expiring.all(now, limit)

/** The first deadline of an open recipient after `now`; undefined if there is none. */
export const findNextExpiry = (db: Tx['db'], now: Millis): Millis | undefined =>
  sql(db).nextExpiry.get(now)?.at ?? undefined

/**
 * Ends a waiting recipient at its deadline: one soft `bounced` event with category `expired`. Returns the stored error;
 * undefined if the recipient is not (or no longer) waiting. The caller adds the dead letter.
 */
export function expireWaitingRecipient(tx: Tx, at: TransitionAt): string | undefined {
  const before = sql(tx.db).lastError.get(at.recipientId)?.lastError
  const reason = `Not delivered before its deadline${before ? `; the last obstacle was: ${before}` : ''}`
  return bounceWaiting(tx, at, { reason, category: 'expired', rule: 'deadline' }) ? reason : undefined
}

/** Cancels a scheduled email or a draft. Returns the number of cancelled recipients; 0 if it is neither (any more). */
export function cancelScheduled(tx: Tx, email: EmailRow, now: Millis): number {
  if (!['scheduled', 'draft'].includes(statusName(email.status))) return 0
  const cancelled = sql(tx.db).cancel.all(email.id)
  if (cancelled.length === 0) return 0
  record(tx, { accountId: email.accountId, type: 'cancelled', at: now, emailId: email.id })
  for (const recipient of cancelled) uncountSent(tx, email, recipient)
  settleEmail(tx, email, 'cancelled', now)
  return cancelled.length
}

/** Releases a draft with one event. Returns its lanes for `App.mailDue`, and when they are due: now, or at its time. */
export function releaseDraft(tx: Tx, email: EmailRow & { readonly scheduledAt: Millis | null }, now: Millis) {
  const { id, accountId, scheduledAt, createdAt } = email
  const at = Math.max(scheduledAt ?? now, now)
  const status = at > now ? 'scheduled' : 'queued'
  const released = sql(tx.db).release.all(statusCode(status), at, scheduledAt ?? createdAt, id)
  if (released.length === 0) throw new Error(`email ${id} is no draft`)
  record(tx, { accountId, type: status, at: now, emailId: id, data: { reason: 'released' } })
  settleEmail(tx, email, status, now)
  return { lanes: new Set(released.map(({ lane }) => lane)), at }
}

/** Moves a scheduled email. Returns its lanes for `App.mailDue`; none if it is not scheduled (any more). */
export function rescheduleScheduled(tx: Tx, email: EmailRow, at: Millis): ReadonlySet<string> {
  if (statusName(email.status) !== 'scheduled') return new Set()
  const moved = sql(tx.db).reschedule.all(at, email.id)
  if (moved.length > 0) sql(tx.db).setScheduledAt.run(at, email.id)
  return new Set(moved.map(({ lane }) => lane))
}

/** SQL: waiting and never attempted, though perhaps held: a broadcast can still withdraw it. */
const IS_UNATTEMPTED = `recipients.status IN ${WAITING_CODES} AND attempts = 0`

/**
 * Cancels a waiting recipient that was never attempted, because its broadcast was cancelled: one `cancelled` event.
 * Returns false if the recipient has been attempted or has ended. The caller refunds the quota.
 */
export const cancelWaiting = (tx: Tx, at: TransitionAt): boolean =>
  endWaiting(tx, at, 'cancelled', () => sql(tx.db).cancelWaiting.get(at.recipientId))

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
