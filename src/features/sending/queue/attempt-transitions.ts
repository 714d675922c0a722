/**
 * @module Changes a claimed recipient: its DATA phase begins, or it is deferred, released or ended. Each change is a
 * compare-and-set inside the caller's transaction, as `status` describes. Never interprets a reply.
 */

import { count, type EventData, type EventType, record, recordAll } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { storeAttempt } from './attempts.ts'
import {
  type ChangedRecipient,
  countBegun,
  countBounced,
  countDelivered,
  IS_NEVER_ATTEMPTED,
  NotProcessingError,
  requireEmail,
  SANDBOX_DELIVERED_METRIC,
  settleEmail,
  uncountSent,
} from './settle.ts'
import { statusCode } from './status.ts'

const sql = prepareStatements((db) => ({
  begin: db.prepare('UPDATE recipients SET delivery_started_at = ? WHERE id = ? AND status = ?'),
  defer: db.prepare(
    `UPDATE recipients SET status = ?, next_at = ?, delivery_started_at = NULL, smtp_response = ?, last_error = ?, sending_ip = ?
     WHERE id = ? AND status = ?`,
  ),
  release: db.prepare<{ neverTried: number }, [number, number, number, number]>(
    `UPDATE recipients SET status = ?, next_at = ?, delivery_started_at = NULL, attempts = attempts - 1 WHERE id = ? AND status = ?
     RETURNING ${IS_NEVER_ATTEMPTED} AS neverTried`,
  ),
  finish: db.prepare<ChangedRecipient, (string | number | null)[]>(
    `UPDATE recipients SET status = ?, lane = NULL, next_at = NULL, delivery_started_at = ?, delivered_at = ?, smtp_response = ?, last_error = ?,
     sending_ip = ?, bounce_type = ?, bounce_category = ?, is_captured = ? WHERE id = ? AND status = ? RETURNING address`,
  ),
}))

/**
 * Records that the DATA phase begins: after this commit, a crash leaves the recipient `uncertain`. Called again within
 * an attempt if a session ended before any octet was sent and the next host replied 354. Returns false if the recipient
 * is not claimed.
 */
export function beginDelivery(tx: Tx, recipientId: number, now: Millis): boolean {
  return sql(tx.db).begin.run(now, recipientId, statusCode('processing')).changes === 1
}

export interface AttemptFacts {
  readonly smtpResponse?: string | undefined
  readonly lastError?: string | undefined
  readonly sendingIp?: string | undefined
  readonly data?: EventData | undefined
  /** Present for an attempt, which is stored unless it ends as `sent`. */
  readonly attempt?: { readonly number: number; readonly dialogue: string | undefined }
}

/**
 * Returns a claimed recipient, whose message no server accepted, to the queue, due at `nextAt`, and attempted at
 * `retryAt`, when its host is tried again. Records one `deferred` event.
 */
export function deferRecipient(
  tx: Tx,
  at: { recipientId: number; emailId: number; nextAt: Millis; retryAt?: Millis; now: Millis; reason: string },
  facts: AttemptFacts,
): void {
  const email = requireEmail(tx, at.emailId)
  const { changes } = sql(tx.db).defer.run(
    statusCode('queued'),
    at.nextAt,
    facts.smtpResponse ?? null,
    facts.lastError ?? null,
    facts.sendingIp ?? null,
    at.recipientId,
    statusCode('processing'),
  )
  if (changes !== 1) throw new NotProcessingError(`recipient ${at.recipientId} is not processing`)
  const data = { ...facts.data, reason: at.reason, next_retry_at: at.retryAt ?? at.nextAt }
  record(tx, {
    accountId: email.accountId,
    type: 'deferred',
    at: at.now,
    emailId: email.id,
    recipientId: at.recipientId,
    data,
  })
  if (facts.attempt) storeAttempt(tx, at, { ...facts.attempt, type: 'deferred', data })
  settleEmail(tx, email, 'queued', at.now)
}

/**
 * Returns a claimed recipient to the queue as if it had not been claimed: the attempt is not counted, and the result of
 * the previous attempt stays. Records no event.
 */
export function releaseRecipient(tx: Tx, recipientId: number, emailId: number, nextAt: Millis, now: Millis): void {
  const released = sql(tx.db).release.get(statusCode('queued'), nextAt, recipientId, statusCode('processing'))
  if (!released) return
  const email = requireEmail(tx, emailId)
  if (released.neverTried === 1) countBegun(tx, email, -1)
  settleEmail(tx, email, 'queued', now)
}

export interface FinalOutcome extends AttemptFacts {
  readonly status: 'sent' | 'bounced' | 'failed' | 'rejected' | 'uncertain'
  /** Stored for `sent` and `uncertain`; for any other status the column becomes null. */
  readonly deliveryStartedAt?: Millis | undefined
  readonly bounceType?: 'hard' | 'soft' | undefined
  readonly bounceCategory?: string | undefined
}

const EVENTS_BY_STATUS: Record<FinalOutcome['status'], readonly EventType[]> = {
  sent: ['sent', 'delivered'],
  bounced: ['bounced'],
  failed: ['failed'],
  rejected: ['rejected'],
  uncertain: ['uncertain'],
}

/** Ends a claimed recipient: stores its final status, records its events, and updates the status of the email. */
export function finishRecipient(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  outcome: FinalOutcome,
): void {
  const email = requireEmail(tx, at.emailId)
  const isSent = outcome.status === 'sent'
  const keepsStart = isSent || outcome.status === 'uncertain'
  const changed = sql(tx.db).finish.get(
    statusCode(outcome.status),
    keepsStart ? (outcome.deliveryStartedAt ?? null) : null,
    isSent ? at.now : null,
    outcome.smtpResponse ?? null,
    outcome.lastError ?? null,
    outcome.sendingIp ?? null,
    outcome.bounceType ?? null,
    outcome.bounceCategory ?? null,
    outcome.data?.captured ? 1 : 0,
    at.recipientId,
    statusCode('processing'),
  )
  if (!changed) throw new NotProcessingError(`recipient ${at.recipientId} is not processing`)
  recordAll(
    tx,
    email.accountId,
    EVENTS_BY_STATUS[outcome.status].map((type) => ({
      type,
      at: at.now,
      emailId: email.id,
      recipientId: at.recipientId,
      // The `sent` event has no data; `delivered`, recorded with it, has the reply of the receiving server.
      ...(type !== 'sent' && outcome.data && { data: outcome.data }),
    })),
  )
  const { attempt, data = {} } = outcome
  if (!isSent && attempt)
    for (const type of EVENTS_BY_STATUS[outcome.status]) storeAttempt(tx, at, { ...attempt, type, data })
  if (isSent && email.sandbox === 1) count(tx, email.accountId, SANDBOX_DELIVERED_METRIC, at.now, 1)
  if (isSent) countDelivered(tx, email, changed, at.now)
  if (outcome.status === 'bounced') countBounced(tx, email, changed, at.now, outcome.bounceType === 'hard')
  if (outcome.status === 'rejected') uncountSent(tx, email, changed)
  settleEmail(tx, email, outcome.status, at.now, isSent ? at.now : undefined)
}
