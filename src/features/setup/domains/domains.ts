/**
 * @module Creates, reads, changes and deletes registered domains. Only this file, notices.ts,
 * rotate-dkim.ts, set-tracking.ts and verify.ts write `domains`. A deleted domain keeps its row and its key, because its open mail is
 * still signed. The caller of `eraseDomain` erases the domain once that mail is final.
 */
import type { Database } from 'bun:sqlite'
import { prepareCount, requirePlanCapacity } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { formatUuid, newUuid, parseUuid, randomBase62, type UuidBytes } from '#platform/ids.ts'
import { listOutboundIps } from '#platform/settings/outbound-source.ts'
import { days, type Millis } from '#platform/units.ts'
import { generateEd25519DkimKey, importDkimKey } from '#protocols/dkim/keys.ts'
import * as records from './dns-records.ts'
import { validateDomainName } from './name.ts'
import { toDkimKeyContext, toEd25519KeyContext } from './sending.ts'
import type { domains } from './tables.ts'
import { getCnameTarget } from './tracking-domain.ts'
import { type Failing, FIRST_CHECK_DELAY_MS, MAX_CHECK_INTERVAL_MS } from './verification-state.ts'

/** What the last mail to the owners about a domain's records reported. */
export type LossNotice = 'lost' | 'ended' | 'restored'

export interface FormerDkim {
  readonly selector: string
  /** The `p=` value of its RSA key, as in `DkimPublicKeys`. */
  readonly dkimPublicKey: string
  readonly retiredAt: Millis
}

type Stored = Readonly<typeof domains.$inferSelect>
type Secret = 'dkimPrivateKey' | 'ed25519PrivateKey' | 'deletedAt'
type Flag = `${'spf' | 'dkim' | 'dmarc' | 'returnPath' | 'mx' | 'ed25519'}Verified`

export interface Domain extends Omit<Stored, Secret | Flag | 'dkimSince' | 'lossNotice' | 'failing'> {
  readonly accountUuid: UuidBytes
  readonly isEd25519Verified: boolean
  readonly verified: Readonly<Record<records.DnsRecordKey, boolean>>
  /** The keys of a rotation that waits for their DNS records; see rotate-dkim.ts. */
  readonly nextDkim: records.DkimPublicKeys | null
  /** Selectors that signed before, whose records must stay for a while; see rotate-dkim.ts. */
  readonly formerDkim: readonly FormerDkim[]
  readonly dkimSince: Millis
  readonly lossNotice: LossNotice | null
  readonly failing: Failing
}

type Row = Omit<Domain, 'isEd25519Verified' | 'verified' | 'nextDkim' | 'formerDkim' | 'inboundEnabled' | 'failing'> &
  Readonly<Record<Flag | 'inboundEnabled', number>> & {
    readonly nextDkim: string | null
    readonly formerDkim: string
    readonly failing: string | null
  }

const SELECT_ALL = `SELECT domains.id, domains.uuid, account_id AS accountId, accounts.uuid AS accountUuid, domain, dkim_selector AS dkimSelector,
     dkim_public_key AS dkimPublicKey, ed25519_public_key AS ed25519PublicKey, ed25519_verified AS ed25519Verified, sending_subdomain AS sendingSubdomain,
     spf_verified AS spfVerified, dkim_verified AS dkimVerified, dmarc_verified AS dmarcVerified, return_path_verified AS returnPathVerified,
     mx_verified AS mxVerified, inbound_enabled AS inboundEnabled, mx_verified_at AS mxVerifiedAt, tracking_domain AS trackingDomain,
     tracking_verified_at AS trackingVerifiedAt, verified_at AS verifiedAt, records_lost_at AS recordsLostAt, loss_notice_sent_at AS lossNoticeSentAt,
     loss_notice AS lossNotice, dmarc_policy AS dmarcPolicy, checked_at AS checkedAt, next_check_at AS nextCheckAt, failing, domains.created_at AS createdAt,
     domains.updated_at AS updatedAt, coalesce(dkim_since, domains.created_at) AS dkimSince,
     (SELECT json_object('selector', selector, 'dkimPublicKey', dkim_keys.dkim_public_key, 'ed25519PublicKey', dkim_keys.ed25519_public_key) FROM dkim_keys
      WHERE domain_id = domains.id AND retired_at IS NULL) AS nextDkim,
     (SELECT json_group_array(json_object('selector', selector, 'dkimPublicKey', dkim_keys.dkim_public_key, 'retiredAt', retired_at) ORDER BY id DESC)
      FROM dkim_keys WHERE domain_id = domains.id AND retired_at IS NOT NULL) AS formerDkim
   FROM domains JOIN accounts ON accounts.id = account_id`
const SELECT = `${SELECT_ALL} WHERE domains.deleted_at IS NULL`

const sql = prepareStatements((db) => ({
  existing: prepareCount(db, 'domains INDEXED BY domains_account_name WHERE account_id = ? AND deleted_at IS NULL'),
  byId: db.prepare<Row, [number]>(`${SELECT} AND domains.id = ?`),
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} AND domains.uuid = ? AND account_id = ?`),
  byName: db.prepare<Row, [string, number]>(`${SELECT} AND domain = ? AND account_id = ?`),
  list: newestFirst<Row, [number]>(db, SELECT_ALL, 'domains WHERE account_id = ? AND deleted_at IS NULL', 'domains.id'),
  verifiedElsewhere: db.prepare<{ n: number }, [string, number]>(
    'SELECT COUNT(*) AS n FROM domains WHERE domain = ? AND account_id <> ? AND verified_at IS NOT NULL AND deleted_at IS NULL',
  ),
  insert: db.prepare(
    insertSql(
      'domains',
      'uuid accountId domain dkimSelector dkimPublicKey dkimPrivateKey ed25519PublicKey ed25519PrivateKey sendingSubdomain nextCheckAt createdAt updatedAt',
    ),
  ),
  setInbound: db.prepare('UPDATE domains SET inbound_enabled = ?, updated_at = ? WHERE id = ?'),
  markDeleted: db.prepare('UPDATE domains SET deleted_at = ?, updated_at = ? WHERE id = ?'),
  close: db.prepare('UPDATE domains SET deleted_at = ?1, updated_at = ?1 WHERE account_id = ?2 AND deleted_at IS NULL'),
  due: db.prepare<Row, [number, number, number, number]>(
    `${SELECT} AND (next_check_at, domains.id) > (?, ?) AND next_check_at <= ? ORDER BY next_check_at, domains.id LIMIT ?`,
  ),
  misdated: db.prepare<{ id: number }, [number, number]>(
    'SELECT id FROM domains WHERE next_check_at BETWEEN ? AND ? AND deleted_at IS NULL LIMIT 1',
  ),
  redate: db.prepare('UPDATE domains SET next_check_at = ? WHERE next_check_at BETWEEN ? AND ? AND deleted_at IS NULL'),
  verified: db.prepare<Row, [number]>(`${SELECT} AND verified_at IS NOT NULL ORDER BY domains.id DESC LIMIT ?`),
  deleted: db.prepare<Row, [number, number]>(
    `${SELECT_ALL} WHERE domains.deleted_at IS NOT NULL AND domains.id > ? ORDER BY domains.id LIMIT ?`,
  ),
  eraseKeys: db.prepare('DELETE FROM dkim_keys WHERE domain_id = ?'),
  erase: db.prepare('DELETE FROM domains WHERE id = ? AND deleted_at IS NOT NULL'),
}))

/** Label of the envelope sender's domain, unless the account chooses another. */
const SENDING_SUBDOMAIN = 'send'

const toDomain = (row: Row): Domain => ({
  ...row,
  isEd25519Verified: row.ed25519Verified === 1,
  verified: {
    spf: row.spfVerified === 1,
    dkim: row.dkimVerified === 1,
    dmarc: row.dmarcVerified === 1,
    return_path: row.returnPathVerified === 1,
    mx: row.mxVerified === 1,
  },
  inboundEnabled: row.inboundEnabled === 1,
  nextDkim: row.nextDkim === null ? null : (JSON.parse(row.nextDkim) as records.DkimPublicKeys),
  formerDkim: JSON.parse(row.formerDkim) as FormerDkim[],
  failing: JSON.parse(row.failing ?? '{}') as Failing,
})

/** The form that the column `failing` stores. */
export const formatFailing = (failing: Failing): string | null =>
  Object.keys(failing).length > 0 ? JSON.stringify(failing) : null

/** The values from which the domain's DNS records are built. */
export const toDomainDns = ({ config, cluster }: DnsSource, domain: Domain): records.DomainDns => ({
  domain: domain.domain,
  selector: domain.dkimSelector,
  dkimPublicKey: domain.dkimPublicKey,
  ed25519PublicKey: domain.ed25519PublicKey,
  nextDkim: domain.nextDkim,
  sendingSubdomain: domain.sendingSubdomain,
  hostname: config.hostname,
  outboundIps: listOutboundIps(config.outboundIps),
  ...(cluster && {
    otherNodes: cluster
      .nodes()
      .filter(({ name }) => name !== config.node)
      .map(({ hostname, outbound_ips }) => ({ hostname, outboundIps: outbound_ips })),
  }),
})

/** The parts of the app from which records are built. */
export type DnsSource = Pick<App, 'config' | 'cluster'>

export function listDnsRecords(app: DnsSource, domain: Domain): records.ByRecord<records.DnsRecord> {
  const dns = toDomainDns(app, domain)
  const ed25519Key = records.toEd25519Key(dns)
  const { trackingDomain: host, trackingVerifiedAt, nextDkim } = domain
  const nextEd25519 = nextDkim && records.toEd25519Key(nextDkim)
  return {
    ...records.buildDnsRecords({ ...dns, verified: domain.verified }),
    ...(ed25519Key && { dkim_ed25519: records.buildDkimRecord(dns, ed25519Key, domain.isEd25519Verified) }),
    ...(nextDkim && { dkim_next: records.buildDkimRecord(dns, records.toRsaKey(nextDkim), false) }),
    ...(nextEd25519 && { dkim_ed25519_next: records.buildDkimRecord(dns, nextEd25519, false) }),
    ...(domain.inboundEnabled && { tls_reports: records.buildTlsReportRecord(dns) }),
    ...(host !== null && {
      // Points the tracking host to us.
      tracking: { type: 'CNAME', host, value: getCnameTarget(app.config), verified: trackingVerifiedAt !== null },
    }),
  }
}

/** The account's domain with this public id; throws 404. */
export function getDomain(db: Database, accountId: number, id: string): Domain {
  const uuid = parseUuid(id)
  const domain = uuid && findDomain(db, accountId, uuid)
  if (!domain) throw notFound('domain_not_found', 'Domain not found.')
  return domain
}

const toFound = (row: Row | null): Domain | undefined => (row ? toDomain(row) : undefined)

export const findDomain = (db: Database, accountId: number, uuid: UuidBytes): Domain | undefined =>
  toFound(sql(db).byUuid.get(uuid, accountId))

export const findDomainById = (db: Database, id: number): Domain | undefined => toFound(sql(db).byId.get(id))

export const findDomainByName = (db: Database, accountId: number, domain: string): Domain | undefined =>
  toFound(sql(db).byName.get(domain, accountId))

export function listDomains(db: Database, accountId: number, page: RowWindow) {
  const { rows, total } = sql(db).list(page, accountId)
  return { domains: rows.map(toDomain), total }
}

/**
 * Registers a domain and creates its DKIM keys. Throws 409 when the account already has it or another account has it
 * verified, 422 for a name that cannot be registered and what `kept` cannot be, and 403 `plan_limit_reached`.
 * @param kept what the domain has in DNS already; what is missing is created
 */
export async function createDomain(app: App, actor: Actor, name: string, kept: KeptDns = {}) {
  const checked = validateDomainName(name)
  if (checked.kind === 'invalid') throw invalid('domain', checked.reason, 'invalid_domain')
  const { domain } = checked
  const own = parseKeptKey(kept)
  const subdomain = kept.return_path === undefined ? SENDING_SUBDOMAIN : parseReturnPath(domain, kept.return_path)
  requireAvailable(app.db, actor.accountId, domain)
  // Checked before the expensive key generation, and again in the transaction.
  requirePlanCapacity(app, app, actor.accountId, 'domains', sql(app.db).existing)
  const key = own ?? (await app.createDkimKey())
  const uuid = newUuid()
  const id = formatUuid(uuid)
  const selector = own?.selector ?? createSelector()
  const sealed = app.keys.seal(key.privateKeyPem, toDkimKeyContext(uuid))
  const ed25519 = createEd25519Key(app, uuid)
  const created = await app.commit.write((tx) => {
    requireAvailable(tx.db, actor.accountId, domain)
    requirePlanCapacity(app, tx, actor.accountId, 'domains', sql(tx.db).existing)
    const now = app.eventTime()
    sql(tx.db).insert.run({
      ...{ uuid, accountId: actor.accountId, domain, sendingSubdomain: subdomain, createdAt: now, updatedAt: now },
      ...{ dkimSelector: selector, dkimPublicKey: key.publicKey, dkimPrivateKey: sealed },
      ...{ ed25519PublicKey: ed25519.publicKey, ed25519PrivateKey: ed25519.sealed },
      nextCheckAt: app.clock.now() + FIRST_CHECK_DELAY_MS,
    })
    auditDomain(app, tx, actor, 'created', { uuid, domain })
    return getDomain(tx.db, actor.accountId, id)
  })
  return { domain: created, warnings: findWarnings(domain, subdomain) }
}

/** What a domain keeps of another mail service, so that its DNS stays as it is; as in the request. */
type KeptDns = Readonly<Partial<Record<'dkim_private_key' | 'dkim_selector' | 'return_path', string | undefined>>>

/** One label; an `e` follows it in the name of the Ed25519 key, so that it has 62 characters at most. */
const SELECTOR = /^[a-z0-9_](?:[a-z0-9_-]{0,60}[a-z0-9_])?$/

function parseKeptKey({ dkim_private_key: pem, dkim_selector: name }: KeptDns) {
  if (pem === undefined && name === undefined) return undefined
  if (pem === undefined || name === undefined)
    throw invalid(
      pem === undefined ? 'dkim_private_key' : 'dkim_selector',
      'dkim_private_key and dkim_selector belong together: a DKIM record in DNS is of one key, at one selector.',
    )
  const key = importDkimKey(pem)
  if (key.kind === 'invalid') throw invalid('dkim_private_key', key.reason, 'invalid_dkim_key')
  // DNS names have no case.
  const selector = name.toLowerCase()
  if (SELECTOR.test(selector)) return { ...key, selector }
  throw invalid('dkim_selector', 'The selector must be one label of at most 62 characters, what precedes ._domainkey.')
}

function parseReturnPath(domain: string, text: string): string {
  const host = validateDomainName(text)
  const label = host.kind === 'ok' && host.domain.endsWith(`.${domain}`) ? host.domain.slice(0, -domain.length - 1) : ''
  if (label === '' || label.includes('.') || label === '_domainkey' || label === '_dmarc')
    throw invalid('return_path', `return_path must be a name one label below ${domain}, such as bounces.${domain}.`)
  return label
}

/**
 * Every registration and rotation has its own selector: two accounts with the same domain, or two registrations, never
 * share a DNS name.
 */
export const createSelector = (): string => `ts${randomBase62(8).toLowerCase()}`

/** An Ed25519 key for a domain, with its private key sealed. */
export function createEd25519Key(app: App, uuid: UuidBytes): { publicKey: string; sealed: Uint8Array } {
  const { publicKey, privateKeyPem } = generateEd25519DkimKey()
  return { publicKey, sealed: app.keys.seal(privateKeyPem, toEd25519KeyContext(uuid)) }
}

function requireAvailable(db: Database, accountId: number, domain: string): void {
  if (sql(db).byName.get(domain, accountId))
    throw conflict('domain_exists', `${domain} is already registered on this account.`)
  if (isVerifiedElsewhere(db, accountId, domain)) throw domainTaken(domain)
}

/** Whether another account has verified the domain and so owns it. */
export const isVerifiedElsewhere = (db: Database, accountId: number, domain: string): boolean =>
  (sql(db).verifiedElsewhere.get(domain, accountId)?.n ?? 0) > 0

export const domainTaken = (domain: string) =>
  conflict('domain_taken', `${domain} is registered and verified by another account.`)

function findWarnings(domain: string, subdomain: string): string[] {
  if (!domain.startsWith(`${subdomain}.`)) return []
  const parent = domain.slice(subdomain.length + 1)
  return [
    `${domain} already begins with the sending subdomain: its envelope sender will be ${subdomain}.${domain}. To send as @${parent}, register ${parent} instead.`,
  ]
}

/** Writes the audit entry of what was done to a domain. */
export function auditDomain(
  app: App,
  tx: Tx,
  actor: Actor,
  done: string,
  { uuid, domain }: Pick<Domain, 'uuid' | 'domain'>,
  more: Readonly<Record<string, unknown>> = {},
): void {
  auditChange(app, tx, actor, `domain.${done}`, uuid, { domain, ...more })
}

/** Sets whether mail to the domain is accepted, whatever its MX record is. */
export function changeDomain(
  app: App,
  actor: Actor,
  id: string,
  change: { readonly inboundEnabled: boolean },
): Promise<Domain> {
  return app.commit.write((tx) => {
    const domain = getDomain(tx.db, actor.accountId, id)
    if (domain.inboundEnabled === change.inboundEnabled) return domain
    sql(tx.db).setInbound.run(change.inboundEnabled ? 1 : 0, app.eventTime(), domain.id)
    auditDomain(app, tx, actor, 'updated', domain, { inbound_enabled: change.inboundEnabled })
    return getDomain(tx.db, actor.accountId, id)
  })
}

/** Marks the domain as deleted; nothing can be sent from it any more, but its key stays. Throws 404. */
export function markDeleted(app: App, tx: Tx, actor: Actor, id: string): Domain {
  const domain = getDomain(tx.db, actor.accountId, id)
  const now = app.eventTime()
  sql(tx.db).markDeleted.run(now, now, domain.id)
  auditDomain(app, tx, actor, 'deleted', domain)
  return domain
}

/** Deleted domains whose rows still exist, in order of id, after the one with id `after`. */
export const listDeletedDomains = (db: Database, after: number, limit: number): Domain[] =>
  sql(db).deleted.all(after, limit).map(toDomain)

/** Deletes the row of a deleted domain, including its keys. */
export function eraseDomain(tx: Tx, id: number): void {
  if (sql(tx.db).erase.run(id).changes > 0) sql(tx.db).eraseKeys.run(id)
}

/** Verified domains of all accounts, up to `limit`, newest first. */
export const listVerifiedDomains = (db: Database, limit: number): Domain[] => sql(db).verified.all(limit).map(toDomain)

/** Domains whose check is due at `until` or earlier, in order, after the one that `after` identifies. */
export const listDueDomains = (
  db: Database,
  until: Millis,
  after: { readonly nextCheckAt: Millis; readonly id: number },
  limit: number,
): Domain[] => sql(db).due.all(after.nextCheckAt, after.id, until, limit).map(toDomain)

/**
 * Marks all domains of a deleted account as deleted: they accept no more mail, and other accounts may register them.
 */
export const closeDomains = (tx: Tx, accountId: number, now: Millis): void => void sql(tx.db).close.run(now, accountId)

/** Checks scheduled further ahead than this were postponed by hand, to disable them. */
const MAX_CLOCK_AHEAD_MS = days(3650)

/**
 * Makes due now all checks that are scheduled later than any interval allows, because the clock was ahead when they
 * were scheduled.
 */
export async function repairCheckTimes({ db, clock, commit }: App): Promise<void> {
  const range = [clock.now() + 2 * MAX_CHECK_INTERVAL_MS, clock.now() + MAX_CLOCK_AHEAD_MS] as const
  if (sql(db).misdated.get(...range)) await commit.write((tx) => sql(tx.db).redate.run(clock.now(), ...range))
}
