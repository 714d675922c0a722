/**
 * @module Schedules mail to owners about their domains: about lost and restored DNS records, and about new DKIM keys of
 * automatic rotations, whose records only they can publish. The transaction of the check stores the schedule in the row of
 * the domain or of the keys, so no crash loses it. A domain is reported as lost at most once in 24 hours, however often
 * its records change. Sends nothing: `domain-notices` does.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import type { DnsRecord } from './dns-records.ts'
import { type Domain, findDomain, type LossNotice, listDnsRecords } from './domains.ts'
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
      // At most a day ahead, because the clock may have been ahead when the last mail was sent.
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
  /** The missing records, and since when they are missing; none once they are restored. */
  readonly lost: readonly string[]
  readonly lostAt: Millis | null
  readonly sendsUntil: Millis | null
  /** The verified parent domain, under which mail of the domain is still sent. */
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
  // Changes nothing if a check has changed the due time since it was read.
  sent: db.prepare(
    `UPDATE domains SET loss_notice = ?, loss_notice_sent_at = coalesce(?, loss_notice_sent_at), loss_notice_due_at = ?
     WHERE id = ? AND loss_notice_due_at = ?`,
  ),
  dueRotationAccounts: db.prepare<{ accountId: number }, [Millis, number]>(
    `SELECT account_id AS accountId FROM dkim_keys JOIN domains ON domains.id = domain_id
     WHERE notice_due_at <= ? AND retired_at IS NULL AND deleted_at IS NULL
     GROUP BY account_id ORDER BY min(notice_due_at) LIMIT ?`,
  ),
  rotationsOf: db.prepare<{ keyId: number; uuid: UuidBytes }, [number, number]>(
    `SELECT dkim_keys.id AS keyId, uuid FROM dkim_keys JOIN domains ON domains.id = domain_id
     WHERE account_id = ? AND notice_due_at IS NOT NULL AND retired_at IS NULL AND deleted_at IS NULL
     ORDER BY domains.id LIMIT ?`,
  ),
  setRotationDueAt: db.prepare('UPDATE dkim_keys SET notice_due_at = ? WHERE id = ?'),
}))

/** Accounts with domains for which a mail is due; the account whose mail has been due longest comes first. */
export const listAccountsWithDueNotices = (db: Database, now: Millis, limit: number): number[] =>
  sql(db)
    .dueAccounts.all(now, limit)
    .map(({ accountId }) => accountId)

export const listDueNotices = (db: Database, accountId: number, now: Millis, limit: number): DueNotice[] =>
  sql(db)
    .dueOf.all(accountId, now, limit)
    .map((row) => ({ ...toDueNotice(row), coveredBy: findCoveringDomain(db, { ...row, accountId, verifiedAt: null }) }))

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

/** So that one mail has all domains of an account whose keys are equally old: each is checked once in this time. */
export const ROTATION_NOTICE_DELAY_MS = hours(6)

/** New keys about which the owners of their domain were not mailed yet. */
export interface RotationNotice {
  /** Row id of the keys. */
  readonly keyId: number
  readonly domain: string
  /** What to publish so that the keys can sign. */
  readonly records: readonly DnsRecord[]
}

/** Accounts with such keys for which a mail is due, the one that waits longest first. */
export const listAccountsWithRotationNotices = (db: Database, now: Millis, limit: number): number[] =>
  sql(db)
    .dueRotationAccounts.all(now, limit)
    .map(({ accountId }) => accountId)

/** All such keys of an account, also those whose mail is not due yet. */
export const listRotationNotices = (
  { config, db }: { readonly config: Config; readonly db: Database },
  accountId: number,
  limit: number,
): RotationNotice[] =>
  sql(db)
    .rotationsOf.all(accountId, limit)
    .flatMap(({ keyId, uuid }): RotationNotice[] => {
      const domain = findDomain(db, accountId, uuid)
      if (!domain) return []
      const { dkim_next: rsa, dkim_ed25519_next: ed25519 } = listDnsRecords(config, domain)
      // A domain that does not sign twice needs no second record.
      const records = [rsa, domain.isEd25519Verified ? ed25519 : undefined].filter((record) => record !== undefined)
      return [{ keyId, domain: domain.domain, records }]
    })

/** Sets when the mail about the keys is due; null: none is. */
export function setRotationNoticeDueAt(tx: Tx, notices: readonly RotationNotice[], dueAt: Millis | null): void {
  for (const { keyId } of notices) sql(tx.db).setRotationDueAt.run(dueAt, keyId)
}
