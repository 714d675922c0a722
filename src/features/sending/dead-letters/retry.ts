/** @module Retries or deletes a dead letter, for its account or for an operator. Never retries one automatically. */

import { getSendingAccount, requireSendingAllowed } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { requeueFinished } from '#features/sending/queue/attempt-transitions.ts'
import { laneOf, simulatorDomain } from '#features/sending/queue/lanes.ts'
import { isContentDeleted } from '#features/sending/queue/retire.ts'
import type { Status } from '#features/sending/queue/status.ts'
import { toPriorityName } from '#features/setup/streams/priority.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { type DeadLetter, getDeadLetter } from './read.ts'
import type { DeadLetterReason } from './write.ts'

const sql = prepareStatements((db) => ({
  delete: db.prepare('DELETE FROM dead_letters WHERE id = ?'),
}))

/** The final status of a recipient by the reason of its dead letter. */
const STATUS_BY_REASON: Readonly<Record<DeadLetterReason, Status>> = {
  expired: 'bounced',
  failed: 'failed',
  uncertain: 'uncertain',
}

/**
 * Puts the recipient of a dead letter back into the queue, due now and with the full time until expiry, and deletes the
 * letter. Throws a 404 for an unknown id, a 403 while the account is paused, and a 409 if the content is no longer
 * stored. If an `uncertain` message did reach its receiver, the retry delivers it a second time.
 */
export function retryDeadLetter(app: App, actor: Actor, id: string): Promise<void> {
  return app.commit.write((tx) => {
    requireSendingAllowed(getSendingAccount(app.config, tx.db, actor.accountId))
    const letter = getDeadLetter(tx.db, actor.accountId, id)
    if (isContentDeleted(tx.db, letter.emailId))
      throw conflict(
        'content_not_kept',
        'The content of this email is no longer stored, so it cannot be sent again; send a new email.',
      )
    const domain = letter.to.slice(letter.to.lastIndexOf('@') + 1)
    const lane = laneOf({
      accountId: actor.accountId,
      domain,
      sandbox: letter.sandbox,
      laneClass: letter.isBulk ? 'bulk' : toPriorityName(letter.priority),
      simulatorDomain: simulatorDomain(app.config),
      streamId: letter.pooledStreamId ?? undefined,
    })
    const nextAt = app.clock.now()
    const isRequeued = requeueFinished(tx, {
      recipientId: letter.recipientId,
      emailId: letter.emailId,
      lane,
      nextAt,
      now: app.eventTime(),
      from: STATUS_BY_REASON[letter.reason],
    })
    if (!isRequeued) {
      throw conflict(
        'dead_letter_superseded',
        `The recipient is now ${letter.status}, so there is nothing to retry; delete the dead letter.`,
      )
    }
    removeDeadLetter(app, tx, actor, letter, 'dead_letter.retried')
    tx.afterCommit(() => app.mailDue.emit({ lane, at: nextAt }))
  })
}

/** Deletes a dead letter; its email is unchanged. Throws a 404 for an unknown id. */
export const deleteDeadLetter = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) =>
    removeDeadLetter(app, tx, actor, getDeadLetter(tx.db, actor.accountId, id), 'dead_letter.deleted'),
  )

function removeDeadLetter(app: App, tx: Tx, actor: Actor, letter: DeadLetter, action: string): void {
  sql(tx.db).delete.run(letter.id)
  audit(app, tx, actor, {
    action,
    resourceType: 'dead_letter',
    resourceId: String(letter.id),
    metadata: { email_id: formatUuid(letter.emailUuid), recipient: letter.to, reason: letter.reason },
  })
}
