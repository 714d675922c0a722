/**
 * @module Sets and removes the host of a domain's tracked links.
 *
 * - The host may be anywhere in DNS, not only below the sending domain: no standard ties links to From, and agencies
 *   and brands use link domains of their own. Only a subdomain can have the CNAME, because a registered name has SOA
 *   and NS records beside it (RFC 1034 §3.6.2).
 * - A CNAME to us does not prove which account published it. So a host at or below a domain that an account has
 *   verified belongs to that account. Other accounts cannot set it. An account that had set it before can no longer
 *   use it (tracking-domain.ts). That account's setting is removed when the owner sets the host, or at the next check
 *   of the domain for which it was set.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import type { Config } from '#platform/settings/config.ts'
import { auditDomain, type Domain, findDomain, findDomainByName, formatFailing, getDomain } from './domains.ts'
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
 * Sets the tracking host of the account's domain; a changed host is unverified. Throws 404; 422
 * `invalid_tracking_domain` for a name that cannot have a CNAME; 409 `tracking_domain_taken` when another domain has
 * the host; 409 `no_cname_target` when this service has no name to which the host could point.
 * @param id public id of the domain
 * @param text as a user types it
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
    auditDomain(app, tx, actor, 'tracking_set', domain, { tracking_domain: host })
    return getDomain(tx.db, actor.accountId, id)
  })
}

/** Removes the tracking host; links of future mail use the service's own URL. Throws 404. */
export function removeTrackingDomain(app: App, actor: Actor, id: string): Promise<Domain> {
  return app.commit.writeFromReserve((tx) => {
    removeHost(app, tx, actor, getDomain(tx.db, actor.accountId, id))
    return getDomain(tx.db, actor.accountId, id)
  })
}

/** Removes the tracking host of a domain if the host now belongs to another account. Returns the resulting domain. */
export function releaseForeignHost(app: App, tx: Tx, domain: Domain): Domain {
  const { trackingDomain: host } = domain
  if (host === null || !isHostElsewhere(tx.db, domain.accountId, host)) return domain
  removeHost(app, tx, createSystemActor(domain), domain)
  return findDomain(tx.db, domain.accountId, domain.uuid) ?? domain
}

/**
 * The name to which a tracking host must point. Throws 409 `no_cname_target` when that name is not fully qualified,
 * because others cannot look it up.
 */
export function requireCnameTarget(config: Config): string {
  const target = getCnameTarget(config)
  if (target.includes('.')) return target
  throw conflict(
    'no_cname_target',
    'This service has no fully qualified host name yet to which a tracking domain could point; its operator must first set TASSIS_PUBLIC_URL, such as https://mail.example.com.',
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
    throw invalidHost(`${host} itself cannot have a CNAME record; use a name below it, such as links.${host}.`)
  }
  const own = [getPublicHost(config), getCnameTarget(config), config.hostname.toLowerCase()]
  if (own.includes(host)) {
    throw invalidHost(`${host} is the name of this service; use a name of your own, such as links.example.com.`)
  }
  return host
}

/** Rejects names at which the account's domains need other records: DNS allows none beside a CNAME. */
function requireNoMailRecords(db: Database, accountId: number, host: string): void {
  const [label = '', parent = ''] = host.split(/\.(.*)/)
  const isReturnPath = findDomainByName(db, accountId, parent)?.sendingSubdomain === label
  if (!isReturnPath && !findDomainByName(db, accountId, host)) return
  throw invalidHost(
    `${host} has mail records of a registered domain, and DNS allows no other record beside a CNAME; use another name, such as links.${isReturnPath ? parent : host}.`,
  )
}

/**
 * Removes the host from another account's domain when the actor's account owns the host. Throws 409 when the other
 * domain may keep the host.
 */
function acquireHost(app: App, tx: Tx, actor: Actor, host: string): void {
  const row = sql(tx.db).holder.get(host)
  const holder = row && findDomain(tx.db, row.accountId, row.uuid)
  if (!holder) return
  if (holder.accountId === actor.accountId) {
    throw conflict('tracking_domain_taken', `${host} is already the tracking domain of ${holder.domain}.`)
  }
  if (findHostOwner(tx.db, host) !== actor.accountId) {
    throw conflict(
      'tracking_domain_taken',
      `${host} is already in use by another account. If you own its domain, register and verify the domain first.`,
    )
  }
  removeHost(app, tx, createSystemActor(holder), holder)
}

function removeHost(app: App, tx: Tx, actor: Actor, domain: Domain): void {
  if (domain.trackingDomain === null) return
  storeHost(app, tx, domain, null)
  auditDomain(app, tx, actor, 'tracking_removed', domain, { tracking_domain: domain.trackingDomain })
}

function storeHost(app: App, tx: Tx, domain: Domain, host: string | null): void {
  const { tracking: _, ...failing } = domain.failing
  const nextCheckAt = host === null ? domain.nextCheckAt : app.clock.now() + FIRST_CHECK_DELAY_MS
  sql(tx.db).setTracking.run(host, formatFailing(failing), nextCheckAt, app.eventTime(), domain.id)
}

const invalidHost = (reason: string) => invalid('tracking_domain', reason, 'invalid_tracking_domain')
