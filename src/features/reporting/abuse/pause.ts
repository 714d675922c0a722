/**
 * @module Pauses and resumes accounts: writes state, finding, event, audit entry and due notice in the caller's
 * transaction. No other code pauses or resumes accounts; callers decide when. Delivery reads the account state to
 * hold and release waiting mail.
 */

import { type PauseSource, setPaused, setResumed } from '#features/core/accounts/pause.ts'
import { announceSendingChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { record } from '#features/core/events/record.ts'
import { cancelNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import type { Tx } from '#platform/db/commit.ts'
import { addFinding } from './findings.ts'
import { type NoticedPause, PAUSE_NOTICE } from './pause-notice.ts'
import { recordResumedStats } from './rates.ts'

export interface NewPause {
  readonly source: PauseSource
  /** One sentence for the owner; never names a threshold or a person's address. */
  readonly reason: string
  /** For the operator: stats, links, words. */
  readonly detail?: Readonly<Record<string, unknown>>
  /** Row id of the email that the finding concerns. */
  readonly emailId?: number
}

/** Pauses the actor's account. Returns false, and writes nothing, if the account is paused already. */
export function pauseAccount(app: App, tx: Tx, actor: Actor, { source, reason, detail, emailId }: NewPause): boolean {
  const { accountId, accountUuid } = actor
  const now = app.eventTime()
  if (!setPaused(tx, accountId, { since: now, source, reason })) return false
  addFinding(app, tx, { accountId, source, reason, detail, emailId, isPause: true })
  const data = JSON.stringify({ since: now, reason } satisfies NoticedPause)
  scheduleNotice(app, tx, { accountId, kind: PAUSE_NOTICE.kind, topic: accountId, data, dueAt: app.clock.now() })
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

/**
 * Resumes the actor's account; its earlier stats are ignored from now on. Returns false if the account is not paused
 * itself.
 */
export function resumeAccount(app: App, tx: Tx, actor: Actor): boolean {
  const { accountId, accountUuid } = actor
  const now = app.eventTime()
  if (!setResumed(tx, accountId, now)) return false
  recordResumedStats(tx, accountId, now)
  cancelNotice(tx, PAUSE_NOTICE.kind, accountId)
  audit(app, tx, actor, { action: 'account.resumed', resourceType: 'account', resourceId: accountUuid })
  announceSendingChange(app, tx, accountId)
  // Paused broadcasts retry at intervals; the signal makes them retry immediately.
  tx.afterCommit(() => app.broadcastChanged.emit())
  return true
}
