/**
 * @module Holds recipients whose stored content is missing, with the reason, and releases them. Each change is a
 * compare-and-set inside the caller's transaction, as `status` says. Never looks for the content.
 */

import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { type AccountHold, holdRecipient } from './account-transitions.ts'
import { statusCode } from './status.ts'

const MISSING_CONTENT = 'The stored content of the email is missing or damaged; it is sent once it is back.'
/** Not as of what is held for its account, which may be released while the content is still missing. */
const HELD_WITHOUT_CONTENT_REASON = `Held without its content: ${MISSING_CONTENT}`
/** SQL: the recipient is held because its content is missing, if it is queued. */
export const IS_WITHOUT_CONTENT = `last_error = '${HELD_WITHOUT_CONTENT_REASON}'`

const sql = prepareStatements((db) => ({
  // Expiry counts anew: it was not the receiver that let it wait.
  expireFrom: db.prepare('UPDATE recipients SET retry_from = next_at WHERE id = ?'),
  // The reason stays: held again, they are not told of it a second time.
  release: db.prepare(
    `UPDATE recipients SET next_at = ?1, retry_from = ?1 WHERE id = ?2 AND next_at = ?3 AND status = ${statusCode('queued')} AND ${IS_WITHOUT_CONTENT}`,
  ),
}))

/** Lets a waiting recipient wait until `until`, because its content is missing; told once by a `deferred` event. False when it does not wait. */
export function holdForContent(tx: Tx, at: AccountHold): boolean {
  if (!holdRecipient(tx, at, MISSING_CONTENT, HELD_WITHOUT_CONTENT_REASON)) return false
  sql(tx.db).expireFrom.run(at.recipientId)
  return true
}

/** Makes those due at `now` that still wait as they were read; returns how many. */
export function releaseForContent(
  tx: Tx,
  recipients: readonly { readonly id: number; readonly nextAt: Millis }[],
  now: Millis,
): number {
  let count = 0
  for (const { id, nextAt } of recipients) count += sql(tx.db).release.run(now, id, nextAt).changes
  return count
}
