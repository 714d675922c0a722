/**
 * @module Verifies the tracking host of a domain on request: checks its CNAME now, stores the result and returns it.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { checkTracking } from './check-tracking.ts'
import { runDnsCheck } from './dns-check-slots.ts'
import { type Domain, getDomain } from './domains.ts'
import { requireCnameTarget, trackingDomainTaken } from './set-tracking.ts'
import { isHostElsewhere } from './tracking-domain.ts'
import { type CheckView, storeChecks, toCheckView } from './verify.ts'

export interface TrackingVerification {
  readonly domain: Domain
  readonly check: CheckView
}

/**
 * Checks whether the tracking host of the account's domain leads to us, and stores the result. Throws 404 when the
 * account does not have the domain; 422 `no_tracking_domain` when no host is set; 409 when the host belongs to a domain
 * that another account has verified, when it was changed during the check, or when this service has no name to which it
 * could point.
 * @param id public id of the domain
 */
export async function verifyTracking(app: App, actor: Actor, id: string): Promise<TrackingVerification> {
  const { host } = getTrackedDomain(app.db, actor, id)
  const target = requireCnameTarget(app.config)
  const check = await runDnsCheck(app, actor.accountId, () => checkTracking(app.freshResolver, { host, target }))
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
