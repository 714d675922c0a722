/**
 * @module Changes a claimed recipient: its DATA phase begins, or it is deferred, released or ended; and what changes an
 * ended one: a late bounce, a retried dead letter. Stores the attempts that did not end as `sent`, with their
 * dialogues, and is the only writer of `attempts`, except when an account is deleted. Each change is a compare-and-set
 * inside the caller's transaction, as `status` describes. Never interprets a reply.
 */

import type { Database } from 'bun:sqlite'
import {
  count,
  type EventData,
  type EventType,
  record,
  recordAll,
  toEventCode,
  toEventType,
} from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
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
import { type Status, statusCode } from './status.ts'

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
  insert: db.prepare(
    'INSERT INTO attempts (email_id, recipient_id, number, type, at, data, dialogue) VALUES (?, ?, ?, ?, ?, ?, ?)',
  ),
  dropDialogues: db.prepare(
    `UPDATE attempts SET dialogue = NULL WHERE email_id = ?1 AND recipient_id = ?2 AND dialogue IS NOT NULL AND id NOT IN
     (SELECT id FROM attempts WHERE email_id = ?1 AND recipient_id = ?2 ORDER BY id DESC LIMIT ${MAX_DIALOGUES})`,
  ),
  deleteOld: db.prepare(
    `DELETE FROM attempts WHERE email_id = ?1 AND recipient_id = ?2 AND id NOT IN
     (SELECT id FROM attempts WHERE email_id = ?1 AND recipient_id = ?2 ORDER BY id DESC LIMIT ${MAX_ATTEMPTS})`,
  ),
  deleteOfEmail: db.prepare('DELETE FROM attempts WHERE email_id = ?'),
  page: db.prepare<Row, [number, number, number]>(
    `SELECT found.*, address FROM (${ALL_ATTEMPTS}) AS found JOIN recipients ON recipients.id = recipientId
     ORDER BY at DESC, recipientId DESC, number DESC LIMIT ?2 OFFSET ?3`,
  ),
  count: db.prepare<{ n: number }, [number]>(`SELECT count(*) AS n FROM (${ALL_ATTEMPTS})`),
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

/** Attempts stored per recipient; older ones are deleted. */
const MAX_ATTEMPTS = 10
/** The newest attempts of a recipient that keep their dialogue. */
const MAX_DIALOGUES = 3

export interface StoredAttempt {
  readonly recipientId: number
  readonly address: string
  /** From 1; begins again when a dead letter is retried. */
  readonly number: number
  /** delivered, deferred, bounced, failed or uncertain. */
  readonly type: EventType
  readonly at: Millis
  readonly data: EventData
  readonly dialogue: string | null
}

interface Row extends Omit<StoredAttempt, 'type' | 'data'> {
  readonly type: number
  readonly data: string | null
}

const DELIVERED = toEventCode('delivered')

/** All attempts of email ?1. A `delivered` event without a server is no attempt: a DSN confirmed the delivery. */
const ALL_ATTEMPTS = `SELECT recipient_id AS recipientId, number, type, at, data, dialogue FROM attempts WHERE email_id = ?1
  UNION ALL SELECT recipient_id, attempts, type, at, data, NULL FROM events JOIN recipients ON recipients.id = recipient_id
  WHERE events.email_id = ?1 AND type = ${DELIVERED} AND data ->> '$.remote_mta' IS NOT NULL`

/** Stores an attempt, and deletes what a recipient has beyond its limits. */
function storeAttempt(
  tx: Tx,
  at: { readonly emailId: number; readonly recipientId: number; readonly now: Millis },
  attempt: {
    readonly number: number
    readonly type: EventType
    readonly data: EventData
    readonly dialogue: string | undefined
  },
): void {
  const { emailId, recipientId } = at
  const { insert, dropDialogues, deleteOld } = sql(tx.db)
  const { number, type, data, dialogue } = attempt
  insert.run(emailId, recipientId, number, toEventCode(type), at.now, JSON.stringify(data), dialogue ?? null)
  // Not decided by the number of the attempt, which begins again when a dead letter is retried.
  dropDialogues.run(emailId, recipientId)
  deleteOld.run(emailId, recipientId)
}

/** Deletes the attempts of an email. */
export const deleteAttempts = (tx: Tx, emailId: number): void => void sql(tx.db).deleteOfEmail.run(emailId)

/** A page of the attempts of an email, newest first, and how many it has. */
export const listAttempts = (
  db: Database,
  emailId: number,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): { readonly attempts: StoredAttempt[]; readonly total: number } => ({
  attempts: sql(db)
    .page.all(emailId, limit, offset)
    .map((row) => ({
      ...row,
      type: toEventType(row.type),
      data: JSON.parse(row.data ?? '{}') as EventData,
    })),
  total: sql(db).count.get(emailId)?.n ?? 0,
})
