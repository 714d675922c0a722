/**
 * @module Holds recipients whose stored content is missing, with the reason, and releases them. Each change is a
 * compare-and-set inside the caller's transaction, as `status` describes. Never looks for the content.
 */

import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { type AccountHold, holdRecipient } from './account-transitions.ts'
import { statusCode } from './status.ts'

const MISSING_CONTENT = 'The stored content of the email is missing or damaged; it is sent once it is back.'
/**
 * Does not begin with the prefix of account holds: releasing the mail of an account must not release a recipient whose
 * content is still missing.
 */
const HELD_WITHOUT_CONTENT_REASON = `Held without its content: ${MISSING_CONTENT}`
/** SQL: a queued recipient is held because its content is missing. */
export const IS_WITHOUT_CONTENT = `last_error = '${HELD_WITHOUT_CONTENT_REASON}'`

const sql = prepareStatements((db) => ({
  // The time until expiry restarts, because the receiver did not cause the wait.
  expireFrom: db.prepare('UPDATE recipients SET retry_from = next_at WHERE id = ?'),
  // The reason stays, so that holding the recipient again records no second event.
  release: db.prepare(
    `UPDATE recipients SET next_at = ?1, retry_from = ?1 WHERE id = ?2 AND next_at = ?3 AND status = ${statusCode('queued')} AND ${IS_WITHOUT_CONTENT}`,
  ),
}))

/**
 * Holds a waiting recipient until `until`, because its content is missing; records one `deferred` event. Returns false
 * if the recipient is not waiting.
 */
export function holdForContent(tx: Tx, at: AccountHold): boolean {
  if (!holdRecipient(tx, at, MISSING_CONTENT, HELD_WITHOUT_CONTENT_REASON)) return false
  sql(tx.db).expireFrom.run(at.recipientId)
  return true
}

/**
 * Makes the recipients due at `now`, except those that are no longer held or whose due time has changed since it was
 * read. Returns how many became due.
 */
export function releaseForContent(
  tx: Tx,
  recipients: readonly { readonly id: number; readonly nextAt: Millis }[],
  now: Millis,
): number {
  let count = 0
  for (const { id, nextAt } of recipients) count += sql(tx.db).release.run(now, id, nextAt).changes
  return count
}
