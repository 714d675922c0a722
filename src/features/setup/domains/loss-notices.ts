/**
 * @module Schedules mail to owners about lost and restored DNS records of their domains. The transaction of the check
 * stores the schedule in the domain's row, so no crash loses it. A domain is reported as lost at most once in 24 hours,
 * however often its records change. Sends nothing: `domain-notices` does.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { hours } from '#platform/units.ts'
import type { Domain, LossNotice } from './domains.ts'
import { findCoveringDomain } from './sending.ts'
import type { VerificationChange } from './verification-state.ts'
import { getSendsUntil, listLostRecords } from './verification-state.ts'

const RENOTIFY_INTERVAL_MS = hours(24)

/** When the next mail about a domain is due after a change of its verification. */
export function computeNoticeDueAt(
  { lossNotice, lossNoticeSentAt }: Pick<Domain, 'lossNotice' | 'lossNoticeSentAt'>,
  change: VerificationChange,
  now: Millis,
  dueAt: Millis | null,
): Millis | null {
  switch (change) {
    case 'records_lost':
      // At most a day ahead: the clock may have been ahead when the last one was sent.
      return Math.min(Math.max(now, (lossNoticeSentAt ?? 0) + RENOTIFY_INTERVAL_MS), now + RENOTIFY_INTERVAL_MS)
    case 'unverified':
      return now
    case 'records_restored':
      return lossNotice === 'lost' || lossNotice === 'ended' ? now : null
    case 'verified':
      return dueAt
  }
}

/** A domain for which a mail is due. */
export interface DueNotice {
  readonly domainId: number
  readonly domain: string
  readonly notice: LossNotice
  /** The missing records, and since when; none once they are restored. */
  readonly lost: readonly string[]
  readonly lostAt: Millis | null
  readonly sendsUntil: Millis | null
  /** The verified parent domain, under which its mail is still sent. */
  readonly coveredBy: string | undefined
  readonly dueAt: Millis
}

interface DueRow {
  readonly id: number
  readonly domain: string
  readonly verifiedAt: Millis | null
  readonly recordsLostAt: Millis | null
  readonly spf: number
  readonly dkim: number
  readonly returnPath: number
  readonly dueAt: Millis
}

const sql = prepareStatements((db) => ({
  dueAccounts: db.prepare<{ accountId: number }, [Millis, number]>(
    `SELECT DISTINCT account_id AS accountId FROM
       (SELECT account_id FROM domains WHERE loss_notice_due_at <= ? ORDER BY loss_notice_due_at LIMIT ?)`,
  ),
  dueOf: db.prepare<DueRow, [number, Millis, number]>(
    `SELECT id, domain, verified_at AS verifiedAt, records_lost_at AS recordsLostAt, spf_verified AS spf, dkim_verified AS dkim,
       return_path_verified AS returnPath, loss_notice_due_at AS dueAt
     FROM domains WHERE account_id = ? AND loss_notice_due_at <= ? AND deleted_at IS NULL ORDER BY id LIMIT ?`,
  ),
  putOff: db.prepare('UPDATE domains SET loss_notice_due_at = ? WHERE account_id = ? AND loss_notice_due_at <= ?'),
  // Changes nothing when a check has changed the due time since then.
  sent: db.prepare(
    `UPDATE domains SET loss_notice = ?, loss_notice_sent_at = coalesce(?, loss_notice_sent_at), loss_notice_due_at = ?
     WHERE id = ? AND loss_notice_due_at = ?`,
  ),
}))

/** Accounts with domains for which a mail is due; the account whose mail has been due longest comes first. */
export const listAccountsWithDueNotices = (db: Database, now: Millis, limit: number): number[] =>
  sql(db)
    .dueAccounts.all(now, limit)
    .map(({ accountId }) => accountId)

export const listDueNotices = (db: Database, accountId: number, now: Millis, limit: number): DueNotice[] =>
  sql(db)
    .dueOf.all(accountId, now, limit)
    .map((row) => ({ ...toDueNotice(row), coveredBy: findCoveringDomain(db, accountId, row.domain) }))

function toDueNotice({
  id,
  domain,
  verifiedAt,
  recordsLostAt,
  spf,
  dkim,
  returnPath,
  dueAt,
}: DueRow): Omit<DueNotice, 'coveredBy'> {
  const verified = { spf: spf === 1, dkim: dkim === 1, return_path: returnPath === 1, dmarc: true, mx: true }
  return {
    domainId: id,
    domain,
    notice: recordsLostAt === null ? 'restored' : verifiedAt === null ? 'ended' : 'lost',
    lost: listLostRecords({ recordsLostAt, verified }),
    lostAt: recordsLostAt,
    sendsUntil: getSendsUntil({ recordsLostAt }),
    dueAt,
  }
}

/** Postpones the due mails of an account; null cancels them. */
export const postponeNotices = (tx: Tx, accountId: number, until: Millis | null, now: Millis): void =>
  void sql(tx.db).putOff.run(until, accountId, now)

/** Records that a notice was sent, and when the next one is due. */
export function markNoticeSent(tx: Tx, { domainId, notice, sendsUntil: until, dueAt }: DueNotice, now: Millis): void {
  const isLost = notice === 'lost'
  // On the last day, the mail about the end of sending replaces a further reminder.
  const next = now + RENOTIFY_INTERVAL_MS < (until ?? 0) ? now + RENOTIFY_INTERVAL_MS : null
  sql(tx.db).sent.run(notice, isLost ? now : null, isLost ? next : null, domainId, dueAt)
}
