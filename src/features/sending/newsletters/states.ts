/**
 * @module The written table of a newsletter's statuses and moves. Its functions are the only writers of `newsletters.status`. Once a newsletter is
 * being sent its status follows its broadcast, in the transactions that move that.
 *
 * draft → scheduled | sending | sent (nobody is on the list)
 * scheduled ⇄ sending (a broadcast that was paused waits again), scheduled, sending → sent | failed | draft (cancelled before anything was handed over)
 */

import { type BroadcastState, findBroadcastById, type OnTransition } from '#features/sending/broadcasts/states.ts'
import { codesOf } from '#platform/db/codes.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** Position = the stored code: only ever append. */
export const NEWSLETTER_STATUSES = ['draft', 'scheduled', 'sending', 'sent', 'failed'] as const
export type NewsletterStatus = (typeof NEWSLETTER_STATUSES)[number]

const CODES = codesOf<NewsletterStatus>('newsletter status', NEWSLETTER_STATUSES)
export const newsletterStatusCode = CODES.codeOf
export const newsletterStatusName = CODES.nameOf

/** States of a broadcast in which its newsletter has a status of its own; in the others it stays as it is. */
const STATUS_BY_STATE: Readonly<Partial<Record<BroadcastState, NewsletterStatus>>> = {
  waiting: 'scheduled',
  sending: 'sending',
  done: 'sent',
  failed: 'failed',
}

const sql = prepareStatements((db) => ({
  begin: db.prepare(
    `UPDATE newsletters SET status = ?, operation_id = ?, scheduled_at = ?, total_recipients = ?, sent_at = ?, updated_at = ?
     WHERE id = ? AND status = ?`,
  ),
  follow: db.prepare(
    'UPDATE newsletters SET status = ?1, sent_at = coalesce(?2, sent_at), updated_at = ?3 WHERE id = ?4 AND status IN (?5, ?6)',
  ),
  restore: db.prepare(
    `UPDATE newsletters SET status = ?, operation_id = NULL, scheduled_at = NULL, total_recipients = NULL, updated_at = ?
     WHERE id = ? AND status IN (?, ?)`,
  ),
}))

/** Moves a draft on because its broadcast has begun; false when it is no draft any more. */
export function startNewsletter(
  tx: Tx,
  id: number,
  start: { operationId: number; state: BroadcastState; total: number; scheduledAt: number | undefined; now: number },
): boolean {
  const status = STATUS_BY_STATE[start.state]
  if (status === undefined) throw new Error(`a broadcast that begins is not ${start.state}`)
  const { changes } = sql(tx.db).begin.run(
    newsletterStatusCode(status),
    start.operationId,
    start.scheduledAt ?? null,
    start.total,
    status === 'sent' ? start.now : null,
    start.now,
    id,
    newsletterStatusCode('draft'),
  )
  return changes === 1
}

/** Lets the newsletter of a broadcast follow it. */
export const followBroadcast: OnTransition = (tx, broadcast, state, now) => {
  if (broadcast.newsletterId === null) return
  const from = [newsletterStatusCode('scheduled'), newsletterStatusCode('sending')] as const
  const isUntouched = state === 'cancelled' && findBroadcastById(tx.db, broadcast.id)?.handedOver === 0
  if (isUntouched) {
    sql(tx.db).restore.run(newsletterStatusCode('draft'), now, broadcast.newsletterId, ...from)
    return
  }
  const status = state === 'cancelled' ? 'failed' : STATUS_BY_STATE[state]
  if (status === undefined) return
  const sentAt = status === 'sent' ? now : null
  sql(tx.db).follow.run(newsletterStatusCode(status), sentAt, now, broadcast.newsletterId, ...from)
}
