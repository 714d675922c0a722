/**
 * @module Changes recipients that had ended: back into the queue from the dead letters, or because of a later DSN. Each
 * change is a compare-and-set inside the caller's transaction, as `status` describes. Never reads a DSN and never
 * decides to retry.
 */

import { record } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { AttemptFacts } from './attempt-transitions.ts'
import { type ChangedRecipient, countBounced, countDelivered, requireEmail, settleEmail } from './settle.ts'
import { type Status, statusCode } from './status.ts'

const sql = prepareStatements((db) => ({
  retry: db.prepare(
    `UPDATE recipients SET status = ?1, lane = ?2, next_at = ?3, retry_from = ?4, attempts = 0, delivery_started_at = NULL, bounce_type = NULL,
     bounce_category = NULL,
     expires_at = ?4 + 1000 * (SELECT extra ->> '$.expires_in' FROM emails WHERE emails.id = email_id) WHERE id = ?5 AND status = ?6`,
  ),
  bounceLate: db.prepare<ChangedRecipient, (string | number | null)[]>(
    `UPDATE recipients SET status = ?, delivery_started_at = NULL, delivered_at = NULL, smtp_response = ?, last_error = ?, bounce_type = ?,
     bounce_category = ? WHERE id = ? AND status IN (?, ?) RETURNING address`,
  ),
  confirm: db.prepare<ChangedRecipient, [number, Millis, string | null, number, number]>(
    'UPDATE recipients SET status = ?, delivered_at = ?, smtp_response = ?, last_error = NULL WHERE id = ? AND status = ? RETURNING address',
  ),
  deliveredAt: db.prepare<{ at: number | null }, [number]>('SELECT delivered_at AS at FROM recipients WHERE id = ?'),
  resetDelivered: db.prepare(
    'UPDATE emails SET delivered_at = (SELECT min(delivered_at) FROM recipients WHERE email_id = emails.id) WHERE id = ?',
  ),
}))

/**
 * Puts an ended recipient back into the queue, with the full time until expiry; used only to retry a dead letter.
 * Returns false if its status is not `from`.
 */
export function requeueFinished(
  tx: Tx,
  at: { recipientId: number; emailId: number; lane: string; nextAt: Millis; now: Millis; from: Status },
): boolean {
  const { changes } = sql(tx.db).retry.run(
    statusCode('queued'),
    at.lane,
    at.nextAt,
    at.nextAt,
    at.recipientId,
    statusCode(at.from),
  )
  if (changes !== 1) return false
  const email = requireEmail(tx, at.emailId)
  record(tx, { accountId: email.accountId, type: 'queued', at: at.now, emailId: email.id, recipientId: at.recipientId })
  settleEmail(tx, email, 'queued', at.now)
  return true
}

/**
 * Changes a sent or uncertain recipient to bounced after a DSN: one `bounced` event, and the recorded delivery is
 * undone. Returns false, without a change, if the recipient is not (or no longer) sent or uncertain.
 */
export function bounceLate(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  outcome: Omit<AttemptFacts, 'sendingIp'> & { readonly bounceType: 'hard' | 'soft'; readonly bounceCategory: string },
): boolean {
  const deliveredAt = sql(tx.db).deliveredAt.get(at.recipientId)?.at
  const changed = sql(tx.db).bounceLate.get(
    statusCode('bounced'),
    outcome.smtpResponse ?? null,
    outcome.lastError ?? null,
    outcome.bounceType,
    outcome.bounceCategory,
    at.recipientId,
    statusCode('sent'),
    statusCode('uncertain'),
  )
  if (!changed) return false
  const email = requireEmail(tx, at.emailId)
  record(tx, {
    accountId: email.accountId,
    type: 'bounced',
    at: at.now,
    emailId: email.id,
    recipientId: at.recipientId,
    ...(outcome.data && { data: outcome.data }),
  })
  sql(tx.db).resetDelivered.run(email.id)
  // Uncertain mail was not counted as delivered.
  if (typeof deliveredAt === 'number') countDelivered(tx, email, changed, deliveredAt, -1)
  countBounced(tx, email, changed, at.now, outcome.bounceType === 'hard')
  settleEmail(tx, email, 'bounced', at.now)
  return true
}

/**
 * Changes an uncertain recipient to sent after a DSN, with the events of a delivery. Returns false if the recipient is
 * not (or no longer) uncertain.
 */
export function confirmUncertain(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  facts: Pick<AttemptFacts, 'smtpResponse' | 'data'>,
): boolean {
  const changed = sql(tx.db).confirm.get(
    statusCode('sent'),
    at.now,
    facts.smtpResponse ?? null,
    at.recipientId,
    statusCode('uncertain'),
  )
  if (!changed) return false
  const email = requireEmail(tx, at.emailId)
  const event = { accountId: email.accountId, at: at.now, emailId: email.id, recipientId: at.recipientId }
  record(tx, { ...event, type: 'sent' })
  record(tx, { ...event, type: 'delivered', ...(facts.data && { data: facts.data }) })
  countDelivered(tx, email, changed, at.now)
  settleEmail(tx, email, 'sent', at.now, at.now)
  return true
}
