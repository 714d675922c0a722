/**
 * @module Looks at the DNS of registered domains without being asked: new ones until their records are there, verified ones now and then. How often
 * and how forgivingly is in standing.ts. Never answers a client; a domain that cannot be checked is due again.
 */
import type { App } from '#features/core/app/app.ts'
import { systemActor } from '#features/core/audit-logs/audit.ts'
import { formatUuid } from '#platform/ids.ts'
import { checkTracking } from './check-tracking.ts'
import { checkDomain } from './checks.ts'
import { type Domain, dnsOf, dueDomains, findDomain, isVerifiedElsewhere, mendCheckTimes } from './domains.ts'
import { giveUpForeignHost } from './set-tracking.ts'
import type { Looks } from './standing.ts'
import { cnameTarget, isHostElsewhere } from './tracking-domain.ts'
import { skipLook, storeLook } from './verify.ts'

/** Rows read at once. */
const SLICE = 100
/** Domains in check at the same time; each asks some ten questions. */
const CONCURRENCY = 8

/**
 * Checks every domain that is due now; returns how many. Meant to be called every minute or so, one run at a time.
 * @param signal ends the run after the checks in hand
 */
export async function recheckDomains(app: App, signal?: AbortSignal): Promise<number> {
  await mendCheckTimes(app)
  const now = app.clock.now()
  let after = { nextCheckAt: -1, id: Number.MAX_SAFE_INTEGER }
  let checked = 0
  for (;;) {
    if (signal?.aborted) return checked
    const due = dueDomains(app.db, now, after, SLICE)
    const last = due.at(-1)
    if (!last) return checked
    after = { nextCheckAt: last.nextCheckAt, id: last.id }
    const work = async () => {
      for (let domain = due.shift(); domain && !signal?.aborted; domain = due.shift()) {
        if (await recheck(app, domain)) checked++
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, work))
    if (signal?.aborted) return checked
  }
}

async function recheck(app: App, asked: Domain): Promise<boolean> {
  try {
    const isTaken = isVerifiedElsewhere(app.db, asked.accountId, asked.domain)
    const found = isTaken ? undefined : await look(app, asked)
    await app.commit.write((tx) => {
      const stored = findDomain(tx.db, asked.accountId, asked.uuid)
      // Deleted, or looked at on request while this look was under way: that one is newer.
      if (!stored || stored.checkedAt !== asked.checkedAt) return
      const domain = giveUpForeignHost(app, tx, stored)
      if (!found || isVerifiedElsewhere(tx.db, domain.accountId, domain.domain)) return skipLook(app, tx, domain)
      const { tracking, ...records } = found
      // A host that was set while this look was under way was not looked at; one that was verified or lost meanwhile was looked at later, on request.
      const isAsAsked =
        domain.trackingDomain === asked.trackingDomain && domain.trackingVerifiedAt === asked.trackingVerifiedAt
      const looks = tracking !== undefined && isAsAsked ? { ...records, tracking } : records
      storeLook(app, tx, systemActor(domain), domain, looks, 'schedule')
    })
    return true
  } catch (error) {
    app.log.error({ err: error, domain: formatUuid(asked.uuid) }, 'domain not rechecked')
    return false
  }
}

async function look(app: App, domain: Domain): Promise<Looks> {
  const { trackingDomain: host } = domain
  const isOurs = host !== null && !isHostElsewhere(app.db, domain.accountId, host)
  const [records, tracking] = await Promise.all([
    checkDomain(app.freshResolver, dnsOf(app.config, domain)),
    isOurs ? checkTracking(app.freshResolver, { host, target: cnameTarget(app.config) }) : undefined,
  ])
  return tracking === undefined ? records : { ...records, tracking }
}
