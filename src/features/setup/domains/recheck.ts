/**
 * @module Checks the DNS of registered domains on a schedule: new domains until their records appear, verified domains
 * at longer intervals. verification-state.ts sets intervals and tolerance. A domain whose check throws stays due.
 */
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { formatUuid } from '#platform/ids.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { checkTracking } from './check-tracking.ts'
import { type Domain, findDomain, isVerifiedElsewhere, listDueDomains, repairCheckTimes } from './domains.ts'
import { checkWithServers } from './published-dns.ts'
import { forgetFormerKeys, resolveDkimChecks, rotateWhenDue } from './rotate-dkim.ts'
import { releaseForeignHost } from './set-tracking.ts'
import { getCnameTarget, isHostElsewhere } from './tracking-domain.ts'
import type { CheckResults } from './verification-state.ts'
import { skipCheck, storeChecks } from './verify.ts'

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

async function checkDns(app: App, domain: Domain): Promise<CheckResults> {
  const { trackingDomain: host } = domain
  const isOurs = host !== null && !isHostElsewhere(app.db, domain.accountId, host)
  const [records, tracking] = await Promise.all([
    checkWithServers(app, domain, app.freshResolver),
    isOurs ? checkTracking(app.freshResolver, { host, target: getCnameTarget(app.config) }) : undefined,
  ])
  return tracking === undefined ? records : { ...records, tracking }
}
