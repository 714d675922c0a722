/**
 * @module Checks the DNS of domains and stores the results, by the rules of `verification-state.ts`, which also sets
 * intervals and tolerance. On request, a domain or its tracking host is checked now, and the results are returned. On a
 * schedule, new domains are checked until their records appear, verified domains at longer intervals; a domain whose
 * check throws stays due.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { record } from '#features/core/events/record.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import type { Millis } from '#platform/units.ts'
import { type Check, verified } from './check-result.ts'
import { checkTracking } from './check-tracking.ts'
import { runDnsCheck } from './dns-check-slots.ts'
import { type ByRecord, DNS_RECORD_KEYS } from './dns-records.ts'
import {
  auditDomain,
  type Domain,
  domainTaken,
  findDomain,
  formatFailing,
  getDomain,
  isVerifiedElsewhere,
  listDueDomains,
  repairCheckTimes,
} from './domains.ts'
import type { CheckView, DomainVerification } from './model.ts'
import { scheduleLossNotice } from './notices.ts'
import { checkWithServers } from './published-dns.ts'
import { endDkimRotation, forgetFormerKeys, resolveDkimChecks, rotateWhenDue } from './rotate-dkim.ts'
import { releaseForeignHost, requireCnameTarget, trackingDomainTaken } from './set-tracking.ts'
import { getCnameTarget, isHostElsewhere } from './tracking-domain.ts'
import * as state from './verification-state.ts'

const sql = prepareStatements((db) => ({
  setStanding: db.prepare(
    `UPDATE domains SET spf_verified = ?, dkim_verified = ?, dmarc_verified = ?, return_path_verified = ?, mx_verified = ?, ed25519_verified = ?,
     inbound_enabled = ?, mx_verified_at = ?, tracking_verified_at = ?, verified_at = ?, records_lost_at = ?, failing = ?,
     dmarc_policy = ?, checked_at = ?, next_check_at = ?, updated_at = ? WHERE id = ?`,
  ),
  setUnchecked: db.prepare('UPDATE domains SET checked_at = NULL WHERE id = ?'),
  setNextCheck: db.prepare('UPDATE domains SET checked_at = ?, next_check_at = ? WHERE id = ?'),
}))

/**
 * Checks the DNS of the account's domain and stores the results. A missing record never ends verification immediately:
 * it starts the 72 hours of verification-state.ts. Throws 404 when the account does not have the domain, or it was
 * deleted during the check, 409 `domain_taken`, with nothing changed, while another account has it verified, and 429 while
 * too many checks of the account run.
 * @param id public id
 * @param resolver without a cache
 */
export async function verifyDomain(
  app: App,
  actor: Actor,
  id: string,
  resolver = app.freshResolver,
): Promise<DomainVerification> {
  const requested = getOwnableDomain(app.db, actor, id)
  const checks = await runDnsCheck(app, actor.accountId, () => checkWithServers(app, requested, resolver))
  return app.commit.write((tx) => {
    // Releases a host that now belongs to another account. Scheduled checks do this too, but frequent requests postpone
    // them.
    const before = releaseForeignHost(app, tx, getOwnableDomain(tx.db, actor, id))
    const results = resolveDkimChecks(requested, before, checks)
    storeChecks(app, tx, actor, before, results, 'request')
    const domain = getDomain(tx.db, actor.accountId, id)
    return {
      domain,
      checks: toCheckViews(domain, results),
      fullyVerified: state.SENDING_RECORDS.every((key) => domain.verified[key]),
    }
  })
}

/**
 * Checks whether the tracking host of the account's domain leads to us, and stores the result. Throws 404 when the
 * account does not have the domain; 422 `no_tracking_domain` when no host is set; 409 when the host belongs to a domain
 * that another account has verified, when it was changed during the check, or when this service has no name to which it
 * could point.
 * @param id public id of the domain
 */
export async function verifyTracking(
  app: App,
  actor: Actor,
  id: string,
  resolver = app.freshResolver,
): Promise<{ readonly domain: Domain; readonly check: CheckView }> {
  const { host } = getTrackedDomain(app.db, actor, id)
  const target = requireCnameTarget(app.config)
  const check = await runDnsCheck(app, actor.accountId, () => checkTracking(resolver, { host, target }))
  return app.commit.write((tx) => {
    const { domain: before, host: hostNow } = getTrackedDomain(tx.db, actor, id)
    if (hostNow !== host) {
      throw conflict('tracking_domain_changed', 'The tracking domain was changed during the check; verify again.')
    }
    storeChecks(app, tx, actor, before, { tracking: check }, 'request')
    const domain = getDomain(tx.db, actor.accountId, id)
    return { domain, check: toCheckView(check, domain.trackingVerifiedAt !== null) }
  })
}

function getTrackedDomain(db: Database, actor: Actor, id: string): { domain: Domain; host: string } {
  const domain = getDomain(db, actor.accountId, id)
  const { trackingDomain: host } = domain
  if (host === null) {
    throw invalid(
      'tracking_domain',
      `${domain.domain} has no tracking domain; set one with PUT /v1/domains/{id}/tracking-domain first.`,
      'no_tracking_domain',
    )
  }
  if (isHostElsewhere(db, actor.accountId, host)) throw trackingDomainTaken(host)
  return { domain, host }
}

/**
 * Marks a domain verified without a DNS check, because the operator says so: it sends and accepts mail until 72 hours
 * after a check contradicts this. Used on networks without DNS to check, such as a developer's machine. Throws as
 * `verifyDomain` does.
 */
export function vouchForDomain(app: App, actor: Actor, id: string): Promise<Domain> {
  return app.commit.write((tx) => {
    const before = releaseForeignHost(app, tx, getOwnableDomain(tx.db, actor, id))
    const assumed = verified('Marked verified by the operator.')
    const checks = Object.fromEntries(DNS_RECORD_KEYS.map((key) => [key, assumed])) as state.CheckResults
    storeChecks(app, tx, actor, before, checks, 'request')
    sql(tx.db).setUnchecked.run(before.id)
    auditDomain(app, tx, actor, 'vouched_for', before)
    return getDomain(tx.db, actor.accountId, id)
  })
}

function getOwnableDomain(db: Database, actor: Actor, id: string): Domain {
  const domain = getDomain(db, actor.accountId, id)
  if (isVerifiedElsewhere(db, actor.accountId, domain.domain)) throw domainTaken(domain.domain)
  return domain
}

const BATCH_SIZE = 100
/** Domains checked concurrently; each needs about ten queries. */
const MAX_CONCURRENT_CHECKS = 8

/**
 * Checks every domain that is due now; returns their number. Call it about every minute, one run at a time.
 * @param signal ends the run after the checks in progress
 */
export async function recheckDomains(app: App, signal?: AbortSignal): Promise<number> {
  await repairCheckTimes(app)
  const now = app.clock.now()
  let after = { nextCheckAt: -1, id: Number.MAX_SAFE_INTEGER }
  let checked = 0
  for (;;) {
    if (signal?.aborted) return checked
    const due = listDueDomains(app.db, now, after, BATCH_SIZE)
    const last = due.at(-1)
    if (!last) return checked
    after = { nextCheckAt: last.nextCheckAt, id: last.id }
    await mapConcurrently(due, MAX_CONCURRENT_CHECKS, async (domain) => {
      if (!signal?.aborted && (await recheckDomain(app, domain))) checked++
    })
  }
}

async function recheckDomain(app: App, requested: Domain): Promise<boolean> {
  try {
    const isTaken = isVerifiedElsewhere(app.db, requested.accountId, requested.domain)
    const found = isTaken ? undefined : await checkDns(app, requested)
    await app.commit.write((tx) => {
      const stored = findDomain(tx.db, requested.accountId, requested.uuid)
      // Nothing is stored when the domain was deleted, or when a check on request has stored a newer result.
      if (!stored || stored.checkedAt !== requested.checkedAt) return
      const domain = releaseForeignHost(app, tx, stored)
      if (!found || isVerifiedElsewhere(tx.db, domain.accountId, domain.domain)) return skipCheck(app, tx, domain)
      const { tracking, ...records } = resolveDkimChecks(requested, domain, found)
      forgetFormerKeys(app, tx, domain.id)
      // The result for a tracking host counts only if nothing has changed since the check began: a host set during the
      // check was not checked, and a changed verification comes from a later check on request.
      const isAsAsked =
        domain.trackingDomain === requested.trackingDomain && domain.trackingVerifiedAt === requested.trackingVerifiedAt
      const results = tracking !== undefined && isAsAsked ? { ...records, tracking } : records
      storeChecks(app, tx, createSystemActor(domain), domain, results, 'schedule')
    })
    if (!isTaken) await rotateWhenDue(app, requested)
    return true
  } catch (error) {
    app.log.error({ err: error, domain: formatUuid(requested.uuid) }, 'domain not rechecked')
    return false
  }
}

async function checkDns(app: App, domain: Domain): Promise<state.CheckResults> {
  const { trackingDomain: host } = domain
  const isOurs = host !== null && !isHostElsewhere(app.db, domain.accountId, host)
  const [records, tracking] = await Promise.all([
    checkWithServers(app, domain, app.freshResolver),
    isOurs ? checkTracking(app.freshResolver, { host, target: getCnameTarget(app.config) }) : undefined,
  ])
  return tracking === undefined ? records : { ...records, tracking }
}

/**
 * Stores the results of a check. A change of the domain's right to send, or of its tracking host, gets an audit entry.
 * Lost and restored records, and the end of the right to send, also get an event and a log line. Only a check of all
 * records of the domain postpones the next check.
 * @param before the domain as read in this transaction
 */
function storeChecks(
  app: App,
  tx: Tx,
  actor: Actor,
  before: Domain,
  checks: state.CheckResults,
  by: 'request' | 'schedule',
): void {
  const now = app.eventTime()
  const after = state.applyChecks(before, checks, { by, now: app.clock.now() })
  const isRotated = endDkimRotation(app, tx, actor, before, checks)
  const nextDkim = isRotated ? null : before.nextDkim
  const updatedAt = state.isSameState(before, after) && !isRotated ? before.updatedAt : now
  const { dmarc } = checks
  const isWhole = DNS_RECORD_KEYS.every((key) => checks[key] !== undefined)
  const nextCheckAt =
    app.clock.now() + state.computeNextCheckDelay({ ...after, nextDkim }, checks, now - updatedAt, app.clock.now())
  sql(tx.db).setStanding.run(
    ...DNS_RECORD_KEYS.map((key) => after.verified[key]),
    after.isEd25519Verified,
    after.inboundEnabled,
    after.mxVerifiedAt,
    after.trackingVerifiedAt,
    after.verifiedAt,
    after.recordsLostAt,
    formatFailing(after.failing),
    !dmarc || dmarc.outcome === 'unknown' ? before.dmarcPolicy : dmarc.policy ? JSON.stringify(dmarc.policy) : null,
    isWhole && !(state.isUnchecked(before) && isUnanswered(checks)) ? now : before.checkedAt,
    isWhole ? nextCheckAt : Math.min(before.nextCheckAt, nextCheckAt),
    updatedAt,
    before.id,
  )
  for (const change of findChanges(before, after)) recordChange(app, tx, actor, { before, after, change, at: now })
  const isTracking = after.trackingVerifiedAt !== null
  if ((before.trackingVerifiedAt !== null) !== isTracking)
    auditDomain(app, tx, actor, isTracking ? 'tracking_verified' : 'tracking_unverified', before, {
      tracking_domain: before.trackingDomain,
    })
}

const isUnanswered = (checks: state.CheckResults): boolean =>
  Object.values(checks).some(({ outcome }) => outcome === 'unknown')

function findChanges(before: state.VerificationState, after: state.VerificationState): state.VerificationChange[] {
  const changes: state.VerificationChange[] = []
  if (before.recordsLostAt === null && after.recordsLostAt !== null) changes.push('records_lost')
  if (before.recordsLostAt !== null && after.recordsLostAt === null) changes.push('records_restored')
  if (before.verifiedAt === null && after.verifiedAt !== null) changes.push('verified')
  if (before.verifiedAt !== null && after.verifiedAt === null) changes.push('unverified')
  return changes
}

const LOSS_LOG_MESSAGES = {
  records_lost: 'a verified domain lost DNS records: its mail is sent for another 72 hours',
  unverified: 'a domain has lacked DNS records for 72 hours: its mail is rejected',
  records_restored: 'the DNS records of a domain are restored',
} as const

/** The audit entry of a change; also the mail, the event and the log line of one that is about lost records. */
function recordChange(
  app: App,
  tx: Tx,
  actor: Actor,
  {
    before,
    after,
    change,
    at,
  }: { before: Domain; after: state.VerificationState; change: state.VerificationChange; at: Millis },
): void {
  if (change === 'verified') {
    auditDomain(app, tx, actor, change, before)
    return
  }
  const isRestored = change === 'records_restored'
  const lost = state.listLostRecords(isRestored ? before : after)
  const until = isRestored ? {} : { sends_until: isoTime(state.getSendsUntil(after) ?? 0) }
  const { accountId, uuid, domain } = before
  const data = { domain_id: formatUuid(uuid), domain, lost_records: lost, ...until }
  scheduleLossNotice(app, tx, before, change)
  auditDomain(app, tx, actor, change, before, { lost, ...until })
  record(tx, { accountId, type: `domain.${change}`, at, data })
  tx.afterCommit(() => app.log[isRestored ? 'info' : 'warn'](data, LOSS_LOG_MESSAGES[change]))
}

/** Postpones the next check without checking: another account owns the domain for now. */
function skipCheck(app: App, tx: Tx, domain: Domain): void {
  const now = app.eventTime()
  sql(tx.db).setNextCheck.run(
    now,
    app.clock.now() + state.computeNextCheckDelay(domain, undefined, now - domain.updatedAt, app.clock.now()),
    domain.id,
  )
}

/** @param verified the flag after the check */
function toCheckView({ outcome, detail }: Check, verified: boolean): CheckView {
  if (outcome !== 'unknown') return { verified, detail }
  return { verified, detail: `${detail} Until then the record stays ${verified ? 'verified' : 'unverified'}.` }
}

/** The check of a next key that does not sign yet: a published record waits for that of the other key. */
const toWaitingView = (check: Check): CheckView =>
  check.verified
    ? { verified: false, detail: `${check.detail} It signs once the record of the other new key is found, too.` }
    : toCheckView(check, false)

function toCheckViews(domain: Domain, checks: ByRecord<Check>): ByRecord<CheckView> {
  const flags: Partial<Record<string, boolean>> = { ...domain.verified, dkim_ed25519: domain.isEd25519Verified }
  const views = Object.entries(checks).flatMap(([key, check]) => {
    if (!key.endsWith('_next')) return [[key, toCheckView(check, flags[key] ?? false)]]
    // Once the next keys sign, their results are those of the domain.
    return domain.nextDkim ? [[key, toWaitingView(check)]] : []
  })
  return Object.fromEntries(views) as ByRecord<CheckView>
}
