/**
 * @module Holds recipients whose account may not send or whose stored content is missing, with the reason, and releases
 * them. Each change is a compare-and-set inside the caller's transaction, as `status` describes. Never decides whether
 * an account may send, and never looks for the content.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { countBegun, recordDue, recordOf, requireEmail, settleEmail, type TransitionAt } from './settle.ts'
import { statusCode, WAITING_CODES } from './status.ts'

/** Begins the stored reason of account holds. If a reply begins so too, a release only retries it sooner. */
const HELD_PREFIX = 'Held: '

/** Why a recipient is held for its account or its content, by its stored error; undefined if it is not. */
export const findHoldReason = (lastError: string): string | undefined =>
  /^Held(?: without its content)?: (.*)/s.exec(lastError)?.[1]

/** Replaces the reason at the release. Not null, so broadcasts do not count the recipient as begun again. */
const RELEASED_REASON = 'The account may send again.'

const QUEUED = statusCode('queued')

/** Of emails that may have a held recipient; `processing` if they have several recipients. */
const HOLDABLE_STATUSES = [QUEUED, statusCode('processing')] as const

/** SQL: the recipient is held for its account. */
export const IS_HELD = `recipients.status = ${QUEUED} AND next_at IS NOT NULL AND substr(last_error, 1, ${HELD_PREFIX.length}) = '${HELD_PREFIX}'`

const sql = prepareStatements((db) => ({
  waiting: db.prepare<{ attempts: number; lastError: string | null }, [number]>(
    `SELECT attempts, last_error AS lastError FROM recipients WHERE id = ? AND next_at IS NOT NULL AND status IN ${WAITING_CODES}`,
  ),
  hold: db.prepare(
    `UPDATE recipients SET status = ${QUEUED}, next_at = ?, last_error = ? WHERE id = ? AND next_at IS NOT NULL AND status IN ${WAITING_CODES}`,
  ),
  // The time until expiry restarts, as for a retried dead letter, because the receiver did not cause the wait.
  releaseForAccount: db.prepare(
    `UPDATE recipients SET next_at = ?1, retry_from = ?1, last_error = ?2 WHERE id = ?3 AND ${IS_HELD}`,
  ),
  releaseOne: db.prepare<{ lane: string }, [number, string, number, string]>(
    `UPDATE recipients SET next_at = ?1, retry_from = ?1, last_error = ?2
     WHERE id = ?3 AND status = ${QUEUED} AND next_at IS NOT NULL AND last_error = ?4 RETURNING lane`,
  ),
  restartExpiry: db.prepare(
    `UPDATE recipients SET retry_from = ? WHERE id = ? AND status = ${QUEUED} AND next_at IS NOT NULL`,
  ),
  held: db.prepare<{ held: number | null; looked: number }, [number, number, number]>(
    `SELECT sum(${IS_HELD}) AS held, count(*) AS looked FROM (SELECT recipients.status, next_at, last_error FROM emails
     JOIN recipients ON email_id = emails.id WHERE account_id = ? AND emails.status = ? LIMIT ?) AS recipients`,
  ),
  // The time until expiry restarts, because the receiver did not cause the wait.
  expireFrom: db.prepare('UPDATE recipients SET retry_from = next_at WHERE id = ?'),
  // The reason stays, so that holding the recipient again records no second event.
  releaseForContent: db.prepare(
    `UPDATE recipients SET next_at = ?1, retry_from = ?1 WHERE id = ?2 AND next_at = ?3 AND status = ${QUEUED} AND ${IS_WITHOUT_CONTENT}`,
  ),
}))

/**
 * Holds a waiting recipient until `until`, because its account may not send. A new reason records a `deferred` event;
 * with the same reason, only the due time changes. Counts no attempt. Returns false if the recipient is not (or no
 * longer) waiting.
 */
export const holdForAccount = (tx: Tx, at: AccountHold, why: string): boolean =>
  holdRecipient(tx, at, why, `${HELD_PREFIX}${why}`)

export interface AccountHold extends TransitionAt {
  readonly until: Millis
}

/**
 * Like `holdForAccount`, for any kind of hold.
 * @param why reason in the event
 * @param reason stored text that identifies the kind of hold
 */
export function holdRecipient(tx: Tx, at: AccountHold, why: string, reason: string): boolean {
  const row = sql(tx.db).waiting.get(at.recipientId)
  if (!row) return false
  sql(tx.db).hold.run(at.until, reason, at.recipientId)
  if (row.lastError === reason) return true
  const email = requireEmail(tx, at.emailId)
  if (row.attempts === 0 && row.lastError === null) countBegun(tx, email, 1)
  recordDue(tx, email, at.now)
  recordOf(tx, email, at, 'deferred', { reason: why, next_retry_at: at.until })
  settleEmail(tx, email, 'queued', at.now)
  return true
}

/** Makes those recipients due that are held for their account, with the full time until expiry; returns how many. */
export function releaseForAccount(tx: Tx, recipients: readonly { readonly id: number }[], now: Millis): number {
  let count = 0
  for (const { id } of recipients) count += sql(tx.db).releaseForAccount.run(now, RELEASED_REASON, id).changes
  return count
}

/**
 * Makes a recipient due at `now` if `holdRecipient` holds it with this reason; false if it does not. Either way, its time
 * until expiry restarts if it waits for an attempt.
 * @param released replaces the stored reason
 */
export const releaseHeldRecipient = (
  tx: Tx,
  recipientId: number,
  { reason, released, now }: { readonly reason: string; readonly released: string; readonly now: Millis },
): boolean => {
  const isHeld = sql(tx.db).releaseOne.get(now, released, recipientId, reason) !== null
  if (!isHeld) sql(tx.db).restartExpiry.run(now, recipientId)
  return isHeld
}

/**
 * Counts the held recipients of an account. Examines up to `limit` recipients for each email status in which recipients
 * may be held. `isAll` is false if there may be more held recipients than were counted.
 */
export function countHeld(db: Database, accountId: number, limit: number): { held: number; isAll: boolean } {
  const counts = HOLDABLE_STATUSES.map((status) => sql(db).held.get(accountId, status, limit))
  return {
    held: counts.reduce((sum, count) => sum + (count?.held ?? 0), 0),
    isAll: counts.every((count) => (count?.looked ?? 0) < limit),
  }
}

const MISSING_CONTENT = 'The stored content of the email is missing or damaged; it is sent once it is back.'
/** Without the prefix of account holds: their release must not release what still lacks its content. */
const HELD_WITHOUT_CONTENT_REASON = `Held without its content: ${MISSING_CONTENT}`
/** SQL: a queued recipient is held because its content is missing. */
export const IS_WITHOUT_CONTENT = `last_error = '${HELD_WITHOUT_CONTENT_REASON}'`

/** Holds a recipient until `until` without its content; records one `deferred` event. False if it is not waiting. */
export function holdForContent(tx: Tx, at: AccountHold): boolean {
  if (!holdRecipient(tx, at, MISSING_CONTENT, HELD_WITHOUT_CONTENT_REASON)) return false
  sql(tx.db).expireFrom.run(at.recipientId)
  return true
}

/** Makes recipients due that are still held, and due as when they were read; returns how many. */
export function releaseForContent(
  tx: Tx,
  recipients: readonly { readonly id: number; readonly nextAt: Millis }[],
  now: Millis,
): number {
  let count = 0
  for (const { id, nextAt } of recipients) count += sql(tx.db).releaseForContent.run(now, id, nextAt).changes
  return count
}
