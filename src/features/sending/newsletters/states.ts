/**
 * @module The statuses and transitions of a newsletter. Its functions are the only writers of `newsletters.status`.
 * While a newsletter is being sent, its status follows its broadcast, in the transactions of the broadcast's
 * transitions.
 *
 * draft → scheduled | sending | sent (no recipients)
 * scheduled → sending; back only when a paused broadcast is resumed after the clock was set back
 * scheduled, sending → sent | failed | draft (cancelled before anything was enqueued)
 */

import { type BroadcastState, findBroadcastById, type OnTransition } from '#features/sending/broadcasts/states.ts'
import { codesOf, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'

/** The position is the stored code, so only append. */
export const NEWSLETTER_STATUSES = ['draft', 'scheduled', 'sending', 'sent', 'failed'] as const
export type NewsletterStatus = (typeof NEWSLETTER_STATUSES)[number]

const CODES = codesOf<NewsletterStatus>('newsletter status', NEWSLETTER_STATUSES)
export const newsletterStatusCode = CODES.codeOf
export const newsletterStatusName = CODES.nameOf

/** By the state of its broadcast; others change nothing, except `cancelled`, which `followBroadcast` handles. */
const STATUS_BY_STATE: Readonly<Partial<Record<BroadcastState, NewsletterStatus>>> = {
  waiting: 'scheduled',
  sending: 'sending',
  done: 'sent',
  failed: 'failed',
}

const sql = prepareStatements((db) => ({
  begin: db.prepare(
    `UPDATE newsletters SET ${setSql('status operationId scheduledAt totalRecipients sentAt updatedAt')}
     WHERE id = $id AND status = ${newsletterStatusCode('draft')}`,
  ),
  follow: db.prepare(
    'UPDATE newsletters SET status = ?1, sent_at = coalesce(?2, sent_at), updated_at = ?3 WHERE id = ?4 AND status IN (?5, ?6)',
  ),
  restore: db.prepare(
    `UPDATE newsletters SET status = ?, operation_id = NULL, scheduled_at = NULL, total_recipients = NULL, updated_at = ?
     WHERE id = ? AND status IN (?, ?)`,
  ),
}))

/** Moves a draft on when its broadcast has started; false when it is no longer a draft. */
export function startNewsletter(
  tx: Tx,
  id: number,
  start: { operationId: number; state: BroadcastState; total: number; scheduledAt: number | undefined; now: number },
): boolean {
  const status = STATUS_BY_STATE[start.state]
  if (status === undefined) throw new Error(`a starting broadcast cannot be ${start.state}`)
  const { operationId, scheduledAt = null, total: totalRecipients, now: updatedAt } = start
  const { changes } = sql(tx.db).begin.run({
    ...{ id, status: newsletterStatusCode(status), operationId, scheduledAt, totalRecipients, updatedAt },
    sentAt: status === 'sent' ? updatedAt : null,
  })
  return changes === 1
}

/** Updates the newsletter of a broadcast at a transition. */
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
