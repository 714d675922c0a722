/**
 * @module Pauses an account and lets it go on: state, finding, event, audit entry and the notice that is due, in the caller's transaction. The only
 * ways to do so. Decides on no pause. Mail that waits is held and released by delivery, which is told by the account's state.
 */

import { type PauseSource, setPaused, setResumed } from '#features/core/accounts/pause.ts'
import { announceSendingChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { record } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { addFinding } from './findings.ts'
import { recordResumedStats } from './rates.ts'

export interface NewPause {
  readonly source: PauseSource
  /** One sentence for the owner; never a threshold, never a person's address. */
  readonly reason: string
  /** For the operator: figures, links, words. */
  readonly detail?: Readonly<Record<string, unknown>>
  /** Row id of the email that it was found in. */
  readonly emailId?: number
}

const sql = prepareStatements((db) => ({
  notice: db.prepare('INSERT INTO pause_notices (finding_id, account_id) VALUES (?, ?)'),
}))

/** Pauses the account of the actor, who is whoever decided it. False, and nothing is written, when it is paused already. */
export function pauseAccount(app: App, tx: Tx, actor: Actor, { source, reason, detail, emailId }: NewPause): boolean {
  const { accountId, accountUuid } = actor
  const now = app.eventTime()
  if (!setPaused(tx, accountId, { since: now, source, reason })) return false
  const findingId = addFinding(app, tx, { accountId, source, reason, detail, emailId, isPause: true })
  sql(tx.db).notice.run(findingId, accountId)
  record(tx, { accountId, type: 'account.auto_paused', at: now, data: { source, reason } })
  audit(app, tx, actor, {
    action: 'account.paused',
    resourceType: 'account',
    resourceId: accountUuid,
    metadata: { source, reason },
  })
  announceSendingChange(app, tx, accountId)
  return true
}

/** Lets the account of the actor send again; what it did before pauses it no more. False when it is not paused itself. */
export function resumeAccount(app: App, tx: Tx, actor: Actor): boolean {
  const { accountId, accountUuid } = actor
  const now = app.eventTime()
  if (!setResumed(tx, accountId, now)) return false
  recordResumedStats(tx, accountId, now)
  audit(app, tx, actor, { action: 'account.resumed', resourceType: 'account', resourceId: accountUuid })
  announceSendingChange(app, tx, accountId)
  // Broadcasts that could not go on look again now and then; this is when.
  tx.afterCommit(() => app.broadcastChanged.emit())
  return true
}
