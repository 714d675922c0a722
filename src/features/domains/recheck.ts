/**
 * @module Looks at the DNS of registered domains without being asked: new ones until their records are there, verified ones now and then. How often
 * and how forgivingly is in standing.ts. Never answers a client; a domain that cannot be checked is due again.
 */
import type { App } from '#features/app.ts'
import { formatUuid } from '#platform/ids.ts'
import { checkDomain } from './checks.ts'
import { type Domain, dnsOf, dueDomains, findDomain, isVerifiedElsewhere, systemActor } from './domains.ts'
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
  const now = app.clock.now()
  let after = { nextCheckAt: -1, id: 0 }
  let checked = 0
  for (;;) {
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
    const checks = isTaken ? undefined : await checkDomain(app.freshResolver, dnsOf(app.config, asked))
    await app.commit.write((tx) => {
      const domain = findDomain(tx.db, asked.accountId, asked.uuid)
      // Deleted, or looked at on request while this look was under way: that one is newer.
      if (!domain || domain.checkedAt !== asked.checkedAt) return
      if (!checks || isVerifiedElsewhere(tx.db, domain.accountId, domain.domain)) skipLook(app, tx, domain)
      else storeLook(app, tx, systemActor(domain), domain, checks, 'schedule')
    })
    return true
  } catch (error) {
    app.log.error({ err: error, domain: formatUuid(asked.uuid) }, 'domain not rechecked')
    return false
  }
}
