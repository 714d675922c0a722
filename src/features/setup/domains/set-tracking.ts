/**
 * @module Sets and removes the host of a domain's tracked links. With domains.ts and verify.ts the only writer of `domains`.
 *
 * - The host may lie anywhere in DNS, not only below the sending domain: no standard ties links to From, and agencies and brands keep their links under
 *   a name of their own. Only a subdomain can carry the CNAME: the name that its owner registered has SOA and NS records beside it (RFC 1034 §3.6.2).
 * - A CNAME to us does not tell which account published it. So a host at or below a domain that some account has verified belongs to that account:
 *   others cannot set it, and lose it when they had it before: at once for use (tracking-domain.ts), and for good when the owner sets it or at the next
 *   look at their domain.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit, createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { Config } from '#platform/config.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Domain, findDomain, findDomainByName, formatFailing, getDomain, SENDING_SUBDOMAIN } from './domains.ts'
import { findRegistrableDomain, validateDomainName } from './name.ts'
import { findHostOwner, getCnameTarget, getPublicHost, isHostElsewhere } from './tracking-domain.ts'
import { FIRST_CHECK_DELAY_MS } from './verification-state.ts'

const sql = prepareStatements((db) => ({
  setTracking: db.prepare(
    `UPDATE domains SET tracking_domain = ?, tracking_verified_at = NULL, failing = ?, next_check_at = MIN(next_check_at, ?), updated_at = ? WHERE id = ?`,
  ),
  holder: db.prepare<{ uuid: Uint8Array; accountId: number }, [string]>(
    'SELECT uuid, account_id AS accountId FROM domains WHERE tracking_domain = ? AND deleted_at IS NULL',
  ),
}))

/**
 * Sets the tracking host of the account's domain; another one than before is unverified. 404; 422 `invalid_tracking_domain` for what cannot carry a CNAME;
 * 409 `tracking_domain_taken` when another domain has it; 409 `no_cname_target` when this service has no name to which it could point.
 * @param id public id of the domain
 * @param text as a person types it
 */
export async function setTrackingDomain(app: App, actor: Actor, id: string, text: string): Promise<Domain> {
  requireCnameTarget(app.config)
  const host = validateHost(app.config, text)
  return app.commit.write((tx) => {
    const domain = getDomain(tx.db, actor.accountId, id)
    if (isHostElsewhere(tx.db, actor.accountId, host)) throw trackingDomainTaken(host)
    if (domain.trackingDomain === host) return domain
    requireNoMailRecords(tx.db, actor.accountId, host)
    acquireHost(app, tx, actor, host)
    storeHost(app, tx, domain, host)
    auditTracking(app, tx, actor, 'domain.tracking_set', domain, host)
    return getDomain(tx.db, actor.accountId, id)
  })
}

/** Takes the tracking host away; links of future mail are served under the service's own URL. 404. */
export function removeTrackingDomain(app: App, actor: Actor, id: string): Promise<Domain> {
  return app.commit.writeFromReserve((tx) => {
    removeHost(app, tx, actor, getDomain(tx.db, actor.accountId, id))
    return getDomain(tx.db, actor.accountId, id)
  })
}

/** Takes the tracking host of a domain away when it belongs to another account by now. Gives the domain as it is then. */
export function releaseForeignHost(app: App, tx: Tx, domain: Domain): Domain {
  const { trackingDomain: host } = domain
  if (host === null || !isHostElsewhere(tx.db, domain.accountId, host)) return domain
  removeHost(app, tx, createSystemActor(domain), domain)
  return findDomain(tx.db, domain.accountId, domain.uuid) ?? domain
}

/** To what a tracking host has to point. 409 `no_cname_target` when that is no name that others can look up. */
export function requireCnameTarget(config: Config): string {
  const target = getCnameTarget(config)
  if (target.includes('.')) return target
  throw conflict(
    'no_cname_target',
    'This service has no full host name yet to which a tracking domain could point; its operator has to set TASSIS_PUBLIC_URL to one first, such as https://mail.example.com.',
  )
}

/** The 409 for a host at or below a domain that another account has verified. */
export const trackingDomainTaken = (host: string) =>
  conflict('tracking_domain_taken', `${host} belongs to a domain that another account has verified.`)

function validateHost(config: Config, text: string): string {
  const name = validateDomainName(text)
  if (name.kind === 'invalid') throw invalidHost(name.reason)
  const { domain: host } = name
  const registered = findRegistrableDomain(host)
  if (host === registered) {
    throw invalidHost(`${host} itself cannot have a CNAME record; give a name below it, such as links.${host}.`)
  }
  const own = [getPublicHost(config), getCnameTarget(config), config.hostname.toLowerCase()]
  if (own.includes(host)) {
    throw invalidHost(`${host} is the name of this service; give a name of your own, such as links.example.com.`)
  }
  return host
}

/** Refuses names at which the account's domains need other records: DNS allows none beside a CNAME. */
function requireNoMailRecords(db: Database, accountId: number, host: string): void {
  const prefix = `${SENDING_SUBDOMAIN}.`
  const parent = host.startsWith(prefix) ? host.slice(prefix.length) : undefined
  const inUse = [host, parent].some((name) => name !== undefined && findDomainByName(db, accountId, name) !== undefined)
  if (!inUse) return
  throw invalidHost(
    `${host} has mail records of a registered domain, and DNS allows no other record beside a CNAME; give another name, such as links.${parent ?? host}.`,
  )
}

/** Makes sure that nobody holds a host that is no other account's. Throws 409 when its holder may keep it. */
function acquireHost(app: App, tx: Tx, actor: Actor, host: string): void {
  const row = sql(tx.db).holder.get(host)
  const holder = row && findDomain(tx.db, row.accountId, new Uint8Array(row.uuid))
  if (!holder) return
  if (holder.accountId === actor.accountId) {
    throw conflict('tracking_domain_taken', `${host} is already the tracking domain of ${holder.domain}.`)
  }
  if (findHostOwner(tx.db, host) !== actor.accountId) {
    throw conflict(
      'tracking_domain_taken',
      `${host} is already in use by another account. If its domain is yours, register and verify that first.`,
    )
  }
  removeHost(app, tx, createSystemActor(holder), holder)
}

function removeHost(app: App, tx: Tx, actor: Actor, domain: Domain): void {
  if (domain.trackingDomain === null) return
  storeHost(app, tx, domain, null)
  auditTracking(app, tx, actor, 'domain.tracking_removed', domain, domain.trackingDomain)
}

function storeHost(app: App, tx: Tx, domain: Domain, host: string | null): void {
  const { tracking: _, ...failing } = domain.failing
  const nextCheckAt = host === null ? domain.nextCheckAt : app.clock.now() + FIRST_CHECK_DELAY_MS
  sql(tx.db).setTracking.run(host, formatFailing(failing), nextCheckAt, app.eventTime(), domain.id)
}

function auditTracking(app: App, tx: Tx, actor: Actor, action: string, domain: Domain, host: string): void {
  audit(app, tx, actor, {
    action,
    resourceType: 'domain',
    resourceId: formatUuid(domain.uuid),
    metadata: { domain: domain.domain, tracking_domain: host },
  })
}

const invalidHost = (reason: string) => invalid('tracking_domain', reason, 'invalid_tracking_domain')
