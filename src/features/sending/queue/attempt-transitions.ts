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
  recordAll,
  toEventCode,
  toEventType,
} from '#features/core/events/record.ts'
import { prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import {
  type ChangedRecipient,
  countBegun,
  countBounced,
  countDelivered,
  type EmailRow,
  IS_NEVER_ATTEMPTED,
  NotProcessingError,
  recordOf,
  requireEmail,
  SANDBOX_DELIVERED_METRIC,
  settleEmail,
  type TransitionAt,
  uncountSent,
} from './settle.ts'
import { type Status, statusCode, statusCodes } from './status.ts'

const QUEUED = statusCode('queued')
const PROCESSING = statusCode('processing')

const FINISHED =
  'status deliveryStartedAt deliveredAt smtpResponse lastError sendingIp bounceType bounceCategory isCaptured'

const sql = prepareStatements((db) => ({
  begin: db.prepare(`UPDATE recipients SET delivery_started_at = ? WHERE id = ? AND status = ${PROCESSING}`),
  defer: db.prepare(
    `UPDATE recipients SET status = ${QUEUED}, next_at = ?, delivery_started_at = NULL, smtp_response = ?, last_error = ?, sending_ip = ?
     WHERE id = ? AND status = ${PROCESSING}`,
  ),
  release: db.prepare<{ neverTried: number }, [number, number]>(
    `UPDATE recipients SET status = ${QUEUED}, next_at = ?, delivery_started_at = NULL, attempts = attempts - 1 WHERE id = ? AND status = ${PROCESSING}
     RETURNING ${IS_NEVER_ATTEMPTED} AS neverTried`,
  ),
  finish: db.prepare<ChangedRecipient, [Record<string, string | number | null>]>(
    `UPDATE recipients SET lane = NULL, next_at = NULL, ${setSql(FINISHED)} WHERE id = $id AND status = ${PROCESSING} RETURNING address`,
  ),
  retry: db.prepare(
    `UPDATE recipients SET status = ${QUEUED}, lane = ?1, next_at = ?2, retry_from = ?2, attempts = 0, delivery_started_at = NULL,
     bounce_type = NULL, bounce_category = NULL,
     expires_at = ?2 + 1000 * (SELECT extra ->> '$.expires_in' FROM emails WHERE emails.id = email_id) WHERE id = ?3 AND status = ?4`,
  ),
  bounceLate: db.prepare<ChangedRecipient, (string | number | null)[]>(
    `UPDATE recipients SET status = ${statusCode('bounced')}, delivery_started_at = NULL, delivered_at = NULL, smtp_response = ?, last_error = ?,
     bounce_type = ?, bounce_category = ? WHERE id = ? AND status IN (${statusCodes(['sent', 'uncertain'])}) RETURNING address`,
  ),
  confirm: db.prepare<ChangedRecipient, [Millis, string | null, number]>(
    `UPDATE recipients SET status = ${statusCode('sent')}, delivered_at = ?, smtp_response = ?, last_error = NULL
     WHERE id = ? AND status = ${statusCode('uncertain')} RETURNING address`,
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
export const beginDelivery = (tx: Tx, recipientId: number, now: Millis): boolean =>
  sql(tx.db).begin.run(now, recipientId).changes === 1

export interface AttemptFacts {
  readonly smtpResponse?: string | undefined
  readonly lastError?: string | undefined
  readonly sendingIp?: string | undefined
  readonly data?: EventData | undefined
  /** Present for an attempt, which is stored unless it ends as `sent`. */
  readonly attempt?: Pick<StoredAttempt, 'number' | 'dialogue'>
}

/**
 * Returns a claimed recipient, whose message no server accepted, to the queue, due at `nextAt`, and attempted at
 * `retryAt`, when its host is tried again. Records one `deferred` event.
 */
export function deferRecipient(
  tx: Tx,
  at: TransitionAt & { readonly nextAt: Millis; readonly retryAt?: Millis; readonly reason: string },
  facts: AttemptFacts,
): void {
  const email = requireEmail(tx, at.emailId)
  const { smtpResponse = null, lastError = null, sendingIp = null } = facts
  const { changes } = sql(tx.db).defer.run(at.nextAt, smtpResponse, lastError, sendingIp, at.recipientId)
  if (changes !== 1) throw new NotProcessingError(`recipient ${at.recipientId} is not processing`)
  const data = { ...facts.data, reason: at.reason, next_retry_at: at.retryAt ?? at.nextAt }
  recordOf(tx, email, at, 'deferred', data)
  if (facts.attempt) storeAttempt(tx, at, { ...facts.attempt, type: 'deferred', data })
  settleEmail(tx, email, 'queued', at.now)
}

/** Returns a claimed recipient to the queue as if it had not been claimed. Records no event. */
export function releaseRecipient(tx: Tx, recipientId: number, emailId: number, nextAt: Millis, now: Millis): void {
  const released = sql(tx.db).release.get(nextAt, recipientId)
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

/** Ends a claimed recipient: stores its final status, records its events, and updates the status of the email. */
export function finishRecipient(tx: Tx, at: TransitionAt, outcome: FinalOutcome): void {
  const email = requireEmail(tx, at.emailId)
  const { status, deliveryStartedAt = null, smtpResponse = null, lastError = null, sendingIp = null } = outcome
  const { bounceType = null, bounceCategory = null, attempt, data } = outcome
  const isSent = status === 'sent'
  const changed = sql(tx.db).finish.get({
    ...{ id: at.recipientId, status: statusCode(status), deliveredAt: isSent ? at.now : null },
    deliveryStartedAt: isSent || status === 'uncertain' ? deliveryStartedAt : null,
    ...{ smtpResponse, lastError, sendingIp, bounceType, bounceCategory, isCaptured: data?.captured ? 1 : 0 },
  })
  if (!changed) throw new NotProcessingError(`recipient ${at.recipientId} is not processing`)
  if (isSent) recordDelivery(tx, email, at, changed, data)
  else recordOf(tx, email, at, status, data)
  if (!isSent && attempt) storeAttempt(tx, at, { ...attempt, type: status, data: data ?? {} })
  if (isSent && email.sandbox === 1) count(tx, email.accountId, SANDBOX_DELIVERED_METRIC, at.now, 1)
  if (status === 'bounced') countBounced(tx, email, changed, at.now, bounceType === 'hard')
  if (status === 'rejected') uncountSent(tx, email, changed)
  settleEmail(tx, email, status, at.now, isSent ? at.now : undefined)
}

/** The `sent` event has no data; `delivered`, recorded with it, has the reply of the receiving server. */
function recordDelivery(
  tx: Tx,
  email: EmailRow,
  at: TransitionAt,
  changed: ChangedRecipient,
  data: EventData | undefined,
): void {
  const event = { at: at.now, emailId: email.id, recipientId: at.recipientId }
  recordAll(tx, email.accountId, [
    { ...event, type: 'sent' },
    { ...event, type: 'delivered', ...(data && { data }) },
  ])
  countDelivered(tx, email, changed, at.now)
}

/** To retry a dead letter, with the full time until expiry. Returns false if the status is not `from`. */
export function requeueFinished(
  tx: Tx,
  at: TransitionAt & { readonly lane: string; readonly nextAt: Millis; readonly from: Status },
): boolean {
  if (sql(tx.db).retry.run(at.lane, at.nextAt, at.recipientId, statusCode(at.from)).changes !== 1) return false
  const email = requireEmail(tx, at.emailId)
  recordOf(tx, email, at, 'queued')
  settleEmail(tx, email, 'queued', at.now)
  return true
}

/**
 * Changes a sent or uncertain recipient to bounced after a DSN: one `bounced` event, and the recorded delivery is
 * undone. Returns false, without a change, if the recipient is not (or no longer) sent or uncertain.
 */
export function bounceLate(
  tx: Tx,
  at: TransitionAt,
  outcome: Omit<AttemptFacts, 'sendingIp'> & { readonly bounceType: 'hard' | 'soft'; readonly bounceCategory: string },
): boolean {
  const deliveredAt = sql(tx.db).deliveredAt.get(at.recipientId)?.at
  const changed = sql(tx.db).bounceLate.get(
    outcome.smtpResponse ?? null,
    outcome.lastError ?? null,
    outcome.bounceType,
    outcome.bounceCategory,
    at.recipientId,
  )
  if (!changed) return false
  const email = requireEmail(tx, at.emailId)
  recordOf(tx, email, at, 'bounced', outcome.data)
  sql(tx.db).resetDelivered.run(email.id)
  // Uncertain mail was not counted as delivered.
  if (typeof deliveredAt === 'number') countDelivered(tx, email, changed, deliveredAt, -1)
  countBounced(tx, email, changed, at.now, outcome.bounceType === 'hard')
  settleEmail(tx, email, 'bounced', at.now)
  return true
}

/** Changes an uncertain recipient to sent after a DSN, with the events of a delivery; false if it is not uncertain. */
export function confirmUncertain(
  tx: Tx,
  at: TransitionAt,
  { smtpResponse = null, data }: Pick<AttemptFacts, 'data'> & { readonly smtpResponse?: string | null | undefined },
): boolean {
  const changed = sql(tx.db).confirm.get(at.now, smtpResponse, at.recipientId)
  if (!changed) return false
  const email = requireEmail(tx, at.emailId)
  recordDelivery(tx, email, at, changed, data)
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

/** All attempts of email ?1. A `delivered` event without a server is no attempt: a DSN confirmed the delivery. */
const ALL_ATTEMPTS = `SELECT recipient_id AS recipientId, number, type, at, data, dialogue FROM attempts WHERE email_id = ?1
  UNION ALL SELECT recipient_id, attempts, type, at, data, NULL FROM events JOIN recipients ON recipients.id = recipient_id
  WHERE events.email_id = ?1 AND type = ${toEventCode('delivered')} AND data ->> '$.remote_mta' IS NOT NULL`

/** Stores an attempt, and deletes what a recipient has beyond its limits. */
function storeAttempt(
  tx: Tx,
  { emailId, recipientId, now }: TransitionAt,
  { number, type, data, dialogue }: Pick<StoredAttempt, 'number' | 'type' | 'data' | 'dialogue'>,
): void {
  const { insert, dropDialogues, deleteOld } = sql(tx.db)
  insert.run(emailId, recipientId, number, toEventCode(type), now, JSON.stringify(data), dialogue)
  // Not decided by the number of the attempt, which begins again when a dead letter is retried.
  dropDialogues.run(emailId, recipientId)
  deleteOld.run(emailId, recipientId)
}

export const deleteAttempts = (tx: Tx, emailId: number): void => void sql(tx.db).deleteOfEmail.run(emailId)

/** A page of the attempts of an email, newest first, and how many it has. */
export const listAttempts = (
  db: Database,
  emailId: number,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): { readonly attempts: StoredAttempt[]; readonly total: number } => ({
  attempts: sql(db)
    .page.all(emailId, limit, offset)
    .map((row) => ({ ...row, type: toEventType(row.type), data: JSON.parse(row.data ?? '{}') as EventData })),
  total: sql(db).count.get(emailId)?.n ?? 0,
})
