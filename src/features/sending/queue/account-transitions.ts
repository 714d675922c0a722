/**
 * @module Holds recipients whose account may not send, with the reason, and releases them. Each change is a
 * compare-and-set inside the caller's transaction, as `status` says. Never decides whether an account may send.
 */
import type { Database } from 'bun:sqlite'
import { record } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { countBegun, requireEmail, settleEmail } from './settle.ts'
import { statusCode, statusName, WAITING_CODES } from './status.ts'

/** How the reasons of all that is held for its account begin. Whoever gets the same into a reply of a receiver is only tried sooner. */
const HELD_PREFIX = 'Held: '
/** Stands where the reason stood: what was held is never again untried, as counters of broadcasts have it. */
const RELEASED_REASON = 'The account may send again.'

interface WaitingRecipient {
  readonly status: number
  readonly attempts: number
  readonly lastError: string | null
}

/** How far the open mail of an account was looked at, in the order of its index. */
export interface ReleasePosition {
  readonly status: number
  readonly createdAt: Millis
  readonly emailId: number
}

/** Statuses of emails that may have a held recipient, as stored: `queued` and, of several recipients, `processing`. */
const HOLDABLE_STATUSES = [statusCode('queued'), statusCode('processing')] as const

/** SQL: the recipient is held for its account. */
export const IS_HELD = `recipients.status = ${statusCode('queued')} AND next_at IS NOT NULL AND substr(last_error, 1, ${HELD_PREFIX.length}) = '${HELD_PREFIX}'`

const sql = prepareStatements((db) => ({
  waiting: db.prepare<WaitingRecipient, [number]>(
    `SELECT status, attempts, last_error AS lastError FROM recipients WHERE id = ? AND status IN ${WAITING_CODES}`,
  ),
  hold: db.prepare(
    `UPDATE recipients SET status = ${statusCode('queued')}, next_at = ?, last_error = ? WHERE id = ? AND status IN ${WAITING_CODES}`,
  ),
  emails: db.prepare<{ id: number; createdAt: number }, [number, number, number, number, number]>(
    `SELECT id, created_at AS createdAt FROM emails WHERE account_id = ? AND status = ? AND (created_at, id) > (?, ?)
     ORDER BY created_at, id LIMIT ?`,
  ),
  // As from a dead letter, expiry counts anew: it was not the receiver that let it wait.
  release: db.prepare<{ lane: string }, [number, string, number]>(
    `UPDATE recipients SET next_at = ?1, retry_from = ?1, last_error = ?2 WHERE email_id = ?3 AND ${IS_HELD} RETURNING lane`,
  ),
  held: db.prepare<{ held: number | null; looked: number }, [number, number, number]>(
    `SELECT sum(${IS_HELD}) AS held, count(*) AS looked FROM (SELECT recipients.status, next_at, last_error FROM emails
     JOIN recipients ON email_id = emails.id WHERE account_id = ? AND emails.status = ? LIMIT ?) AS recipients`,
  ),
}))

/**
 * Lets a waiting recipient wait until `until`, because its account may not send. The first time it is told by a `deferred` event with the reason; as long
 * as the reason stays it is only put off. No attempt is counted. False when it does not wait (any more).
 */
export const holdForAccount = (tx: Tx, at: AccountHold, why: string): boolean =>
  holdRecipient(tx, at, why, `${HELD_PREFIX}${why}`)

/** A recipient, and until when it is held. */
export interface AccountHold {
  readonly recipientId: number
  readonly emailId: number
  readonly until: Millis
  readonly now: Millis
}

/** The same for whatever reason. @param reason as it is stored, by which whoever held it finds it again */
export function holdRecipient(tx: Tx, at: AccountHold, why: string, reason: string): boolean {
  const row = sql(tx.db).waiting.get(at.recipientId)
  if (!row) return false
  sql(tx.db).hold.run(at.until, reason, at.recipientId)
  if (row.lastError === reason) return true
  const email = requireEmail(tx, at.emailId)
  if (row.attempts === 0 && row.lastError === null) countBegun(tx, email, 1)
  const event = { accountId: email.accountId, at: at.now, emailId: email.id }
  if (statusName(email.status) === 'scheduled') record(tx, { ...event, type: 'queued' })
  record(tx, {
    ...event,
    type: 'deferred',
    recipientId: at.recipientId,
    data: { reason: why, next_retry_at: at.until },
  })
  settleEmail(tx, email, 'queued', at.now)
  return true
}

/**
 * Looks at up to `limit` open emails of an account after `place`, and makes what is held of them due at `now`, with a new time until expiry; ends with the
 * email that brings it to `limit` recipients. Gives how many recipients that were, their lanes for `App.mailDue`, and where to go on; no place: all were
 * looked at.
 */
export function releaseBatch(
  tx: Tx,
  accountId: number,
  after: ReleasePosition | undefined,
  { now, limit }: { readonly now: Millis; readonly limit: number },
): { released: number; lanes: ReadonlySet<string>; place: ReleasePosition | undefined } {
  const from = after ?? { status: HOLDABLE_STATUSES[0], createdAt: 0, emailId: 0 }
  const emails = sql(tx.db).emails.all(accountId, from.status, from.createdAt, from.emailId, limit)
  const lanes = new Set<string>()
  let released = 0
  let last: (typeof emails)[number] | undefined
  for (const email of emails) {
    if (released >= limit) break
    last = email
    for (const { lane } of sql(tx.db).release.all(now, RELEASED_REASON, email.id)) {
      lanes.add(lane)
      released++
    }
  }
  if (last) return { released, lanes, place: { status: from.status, createdAt: last.createdAt, emailId: last.id } }
  const next = HOLDABLE_STATUSES[HOLDABLE_STATUSES.indexOf(from.status as (typeof HOLDABLE_STATUSES)[number]) + 1]
  return { released, lanes, place: next === undefined ? undefined : { status: next, createdAt: 0, emailId: 0 } }
}

/** How many recipients of an account are held, of up to `most` that are open of each kind; `isAll` says whether those are all. */
export function countHeld(db: Database, accountId: number, limit: number): { held: number; isAll: boolean } {
  const counts = HOLDABLE_STATUSES.map((status) => sql(db).held.get(accountId, status, limit))
  return {
    held: counts.reduce((sum, count) => sum + (count?.held ?? 0), 0),
    isAll: counts.every((count) => (count?.looked ?? 0) < limit),
  }
}
