/**
 * @module Rotates the DKIM keys of a domain. New keys get a new selector, and sign only once a DNS check has found their
 * records; until then the present ones sign. Then the old private keys are deleted, and the old records must stay in DNS
 * for some days, because receivers verify mail late. Only this file writes `dkim_keys`, until `domains.ts` erases them.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import { unknown } from './check-result.ts'
import { auditDomain, createEd25519Key, createSelector, type Domain, type FormerDkim, getDomain } from './domains.ts'
import { scheduleRotationNotice } from './notices.ts'
import { toDkimKeyContext } from './sending.ts'
import { type CheckResults, FIRST_CHECK_DELAY_MS } from './verification-state.ts'

/** How long the records of former keys must stay in DNS: mail is verified late, and forwarded. */
const FORMER_RECORD_MS = days(7)
/** How long former selectors are shown, so that their records are removed from DNS after those days; at most so many. */
const FORMER_SHOWN_MS = days(37)
const MAX_FORMER = 10

const sql = prepareStatements((db) => ({
  insertNext: db.prepare(
    insertSql(
      'dkim_keys',
      'domainId selector dkimPublicKey dkimPrivateKey ed25519PublicKey ed25519PrivateKey createdAt',
    ),
  ),
  checkSoon: db.prepare(
    'UPDATE domains SET next_check_at = min(next_check_at, ?), updated_at = max(?, updated_at + 1) WHERE id = ?',
  ),
  insertFormer: db.prepare(
    `INSERT INTO dkim_keys (domain_id, selector, dkim_public_key, ed25519_public_key, created_at, retired_at)
     SELECT id, dkim_selector, dkim_public_key, ed25519_public_key, coalesce(dkim_since, created_at), ? FROM domains WHERE id = ?`,
  ),
  adopt: db.prepare(
    `UPDATE domains SET (dkim_selector, dkim_public_key, dkim_private_key, ed25519_public_key, ed25519_private_key) =
       (SELECT selector, dkim_public_key, dkim_private_key, ed25519_public_key, ed25519_private_key FROM dkim_keys
        WHERE domain_id = domains.id AND retired_at IS NULL), dkim_since = ? WHERE id = ?`,
  ),
  deleteNext: db.prepare('DELETE FROM dkim_keys WHERE domain_id = ? AND retired_at IS NULL'),
  forget: db.prepare(
    `DELETE FROM dkim_keys WHERE domain_id = ?1 AND (retired_at < ?2 OR retired_at IS NOT NULL AND id NOT IN
       (SELECT id FROM dkim_keys WHERE domain_id = ?1 AND retired_at IS NOT NULL ORDER BY id DESC LIMIT ${MAX_FORMER}))`,
  ),
}))

/** Until when the record of a former selector must stay in DNS. */
export const getKeepUntil = ({ retiredAt }: FormerDkim): Millis => retiredAt + FORMER_RECORD_MS

/**
 * Creates the next DKIM keys of the account's domain. Returns the domain unchanged when keys already wait for their
 * records. Throws 404.
 * @param id public id
 */
export async function startDkimRotation(app: App, actor: Actor, id: string): Promise<Domain> {
  const requested = getDomain(app.db, actor.accountId, id)
  if (requested.nextDkim) return requested
  const key = await app.createDkimKey()
  return app.commit.write((tx) => {
    const domain = getDomain(tx.db, actor.accountId, id)
    if (domain.nextDkim) return domain
    const { uuid } = domain
    const now = app.eventTime()
    const selector = createSelector()
    const ed25519 = createEd25519Key(app, uuid)
    sql(tx.db).insertNext.run({
      ...{ domainId: domain.id, selector, createdAt: now, dkimPublicKey: key.publicKey },
      dkimPrivateKey: app.keys.seal(key.privateKeyPem, toDkimKeyContext(uuid)),
      ...{ ed25519PublicKey: ed25519.publicKey, ed25519PrivateKey: ed25519.sealed },
    })
    // Users who start a rotation see the records in the response.
    if (actor.type === 'system') scheduleRotationNotice(app, tx, domain)
    sql(tx.db).checkSoon.run(app.clock.now() + FIRST_CHECK_DELAY_MS, now, domain.id)
    auditDomain(app, tx, actor, 'dkim_rotation_started', domain, { selector })
    return getDomain(tx.db, actor.accountId, id)
  })
}

/**
 * Whether the results say that the next keys can sign: the RSA record is published, and that of the Ed25519 key if the
 * present Ed25519 key signs.
 */
const canSwitch = ({ nextDkim, isEd25519Verified }: Domain, checks: CheckResults): boolean =>
  nextDkim !== null &&
  checks.dkim_next?.outcome === 'verified' &&
  (!isEd25519Verified || checks.dkim_ed25519_next?.outcome === 'verified')

const CHANGED = unknown('The DKIM keys of the domain changed during the check; check again.')

/**
 * The results that count, for a domain whose keys may have changed since the check began. When the next keys can sign,
 * their results are those of the domain: see `endDkimRotation`.
 * @param requested the domain that was checked
 * @param before the domain as read in this transaction
 */
export function resolveDkimChecks<T extends CheckResults>(requested: Domain, before: Domain, checks: T): T {
  const isSameNext = requested.nextDkim?.selector === before.nextDkim?.selector
  const current: T = isSameNext ? checks : { ...checks, ...(checks.dkim_next && { dkim_next: CHANGED }) }
  if (requested.dkimSelector !== before.dkimSelector)
    return { ...current, dkim: CHANGED, ...(current.dkim_ed25519 && { dkim_ed25519: CHANGED }) }
  const { dkim_next: dkim, dkim_ed25519_next: ed25519 } = current
  return canSwitch(before, current) ? { ...current, dkim, ...(ed25519 && { dkim_ed25519: ed25519 }) } : current
}

/** Lets the next keys sign when their records are published; returns whether. @param checks from `resolveDkimChecks` */
export function endDkimRotation(app: App, tx: Tx, actor: Actor, before: Domain, checks: CheckResults): boolean {
  const { id, nextDkim, domain, dkimSelector: former } = before
  if (nextDkim === null || !canSwitch(before, checks)) return false
  const now = app.eventTime()
  sql(tx.db).insertFormer.run(now, id)
  sql(tx.db).adopt.run(now, id)
  sql(tx.db).deleteNext.run(id)
  forgetFormerKeys(app, tx, id)
  auditDomain(app, tx, actor, 'dkim_rotated', before, { selector: nextDkim.selector })
  tx.afterCommit(() =>
    app.log.info({ domain, selector: nextDkim.selector, former }, 'the new DKIM keys of a domain sign its mail'),
  )
  return true
}

/** Forgets the former selectors of a domain that are no longer shown. */
export const forgetFormerKeys = (app: App, tx: Tx, domainId: number): void =>
  void sql(tx.db).forget.run(domainId, app.clock.now() - FORMER_SHOWN_MS)

/** Starts the rotation of a verified domain whose keys are as old as the setting says. */
export async function rotateWhenDue(app: App, { accountId, uuid }: Domain): Promise<void> {
  const { dkimRotateDays } = app.config
  if (dkimRotateDays === 0) return
  const domain = getDomain(app.db, accountId, formatUuid(uuid))
  if (domain.nextDkim || domain.verifiedAt === null || app.clock.now() < domain.dkimSince + days(dkimRotateDays)) return
  await startDkimRotation(app, createSystemActor(domain), formatUuid(uuid))
  app.log.warn(
    { domain: domain.domain },
    'a domain got new DKIM keys: publish their records (`tassis domains records`), so that they can sign',
  )
}
