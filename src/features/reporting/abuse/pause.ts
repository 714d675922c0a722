/**
 * @module Pauses and resumes accounts, and finds those that the abuse watch monitors: writes state, finding, event, audit
 * entry and due notice in the caller's transaction. No other code pauses or resumes accounts; callers decide when.
 * Delivery reads the account state to hold and release waiting mail. Stores and lists the findings for the operator, as
 * the only writer of `abuse_findings`.
 */
import type { Database } from 'bun:sqlite'
import { findSendingBlock, type PauseSource, setPaused, setResumed } from '#features/core/accounts/pause.ts'
import { getPlanTerms, type Plan } from '#features/core/accounts/plans.ts'
import { announceSendingChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { record } from '#features/core/events/record.ts'
import { cancelNotice, type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { recordResumedStats } from './rates.ts'
import type { abuseFindings } from './tables.ts'

/** Data of the notice; its topic is the account. */
interface NoticedPause {
  readonly since: Millis
  readonly reason: string
}

/** The mail to owners that sending is paused on their account. */
export const PAUSE_NOTICE: OwnerNotice = {
  kind: 'pause',
  intervalMs: 0,
  isForParent: true,
  compose(_, { name }, [notice]) {
    const { since, reason } = JSON.parse(notice?.data ?? '{}') as NoticedPause
    return {
      subject: 'Sending is paused on your account',
      text: [
        `Sending was paused on the account ${name} on ${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC.`,
        `Reason: ${reason}`,
        'Until sending is resumed, new emails are rejected with the error "account_paused". Emails accepted before are held and sent when sending is resumed.',
        'Receiving, reading and your data are not affected. To resume sending, contact the operator of the service.',
      ].join('\n\n'),
    }
  },
}

export interface NewPause {
  readonly source: PauseSource
  /** One sentence for the owner; never names a threshold or a person's address. */
  readonly reason: string
  /** For the operator: stats, links, words. */
  readonly detail?: Readonly<Record<string, unknown>> | undefined
  /** Row id of the email that the finding concerns. */
  readonly emailId?: number | undefined
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
  auditChange(app, tx, actor, 'account.paused', accountUuid, { source, reason })
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
  auditChange(app, tx, actor, 'account.resumed', accountUuid)
  announceSendingChange(app, tx, accountId)
  // Paused broadcasts retry at intervals; the signal makes them retry immediately.
  tx.afterCommit(() => app.broadcastChanged.emit())
  return true
}

const sql = prepareStatements((db) => ({
  account: db.prepare<{ uuid: UuidBytes; plan: Plan }, [number]>('SELECT uuid, plan FROM accounts WHERE id = ?'),
  insert: db.prepare<unknown, [Omit<typeof abuseFindings.$inferSelect, 'id'>]>(
    insertSql('abuse_findings', 'accountId source reason detail emailId paused createdAt'),
  ),
  list: newestFirst<AbuseFinding, [number | null]>(
    db,
    SELECT,
    'abuse_findings WHERE account_id = coalesce(?, account_id)',
    'abuse_findings.id',
  ),
}))

/**
 * The system actor for a monitored account; undefined if the account is deleted, blocked from sending, or on a plan
 * that is not monitored.
 */
export function findMonitoredAccount(
  { config }: Pick<App, 'config'>,
  db: Database,
  accountId: number,
): Actor | undefined {
  const account = sql(db).account.get(accountId)
  if (!account || !getPlanTerms(config, account.plan).isWatched || findSendingBlock(db, accountId) !== undefined)
    return undefined
  return createSystemActor({ accountId, accountUuid: account.uuid })
}

export interface NewAbuseFinding extends NewPause {
  readonly accountId: number
  readonly isPause: boolean
}

export interface AbuseFinding
  extends Readonly<Pick<typeof abuseFindings.$inferSelect, 'id' | 'source' | 'reason' | 'detail' | 'createdAt'>> {
  readonly accountUuid: UuidBytes
  readonly accountName: string
  /** Null if the finding concerns no email, or a deleted one. */
  readonly emailUuid: UuidBytes | null
  readonly paused: number
}

const SELECT = `SELECT abuse_findings.id, accounts.uuid AS accountUuid, name AS accountName, source, reason, detail, emails.uuid AS emailUuid, paused,
  abuse_findings.created_at AS createdAt FROM abuse_findings JOIN accounts ON accounts.id = abuse_findings.account_id
  LEFT JOIN emails ON emails.id = abuse_findings.email_id`

export function addFinding(app: App, tx: Tx, finding: NewAbuseFinding): void {
  sql(tx.db).insert.run({
    ...finding,
    detail: finding.detail ? JSON.stringify(finding.detail) : null,
    emailId: finding.emailId ?? null,
    paused: finding.isPause,
    createdAt: app.eventTime(),
  })
}

/** A page of the findings, newest first, of all accounts unless `accountId` is set, with the number on all pages. */
export const listFindings = (db: Database, accountId: number | undefined, window: RowWindow) =>
  sql(db).list(window, accountId ?? null)
