/**
 * @module Registered domains: make, read, change, delete. The only writer of `domains`, with verify.ts.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { prepared } from '#platform/db/open.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { formatUuid, newUuid, parseUuid, randomBase62, type UuidBytes } from '#platform/ids.ts'
import { generateDkimKey } from '#protocols/dkim/keys.ts'
import { audit } from '../audit-logs/audit.ts'
import { type DnsRecordKey, type DnsRecords, type DomainDns, dnsRecordsFor } from './dns-records.ts'
import { validateDomainName } from './name.ts'
import { dkimKeyContext } from './sending.ts'

export interface Domain {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly accountUuid: UuidBytes
  readonly domain: string
  readonly dkimSelector: string
  readonly dkimPublicKey: string
  readonly sendingSubdomain: string
  readonly verified: Readonly<Record<DnsRecordKey, boolean>>
  readonly inboundEnabled: boolean
  readonly mxVerifiedAt: Millis | null
  readonly verifiedAt: Millis | null
  readonly checkedAt: Millis | null
  readonly createdAt: Millis
  readonly updatedAt: Millis
}

interface Row {
  id: number
  uuid: Uint8Array
  account_id: number
  account_uuid: Uint8Array
  domain: string
  dkim_selector: string
  dkim_public_key: string
  sending_subdomain: string
  spf_verified: number
  dkim_verified: number
  dmarc_verified: number
  return_path_verified: number
  mx_verified: number
  inbound_enabled: number
  mx_verified_at: number | null
  verified_at: number | null
  checked_at: number | null
  created_at: number
  updated_at: number
}

const SELECT =
  'SELECT domains.*, accounts.uuid AS account_uuid FROM domains JOIN accounts ON accounts.id = account_id WHERE deleted_at IS NULL'

const sql = prepared((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} AND domains.uuid = ? AND account_id = ?`),
  byName: db.prepare<Row, [string, number]>(`${SELECT} AND domain = ? AND account_id = ?`),
  page: db.prepare<Row, [number, number, number]>(
    `${SELECT} AND account_id = ? ORDER BY domains.id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>(
    'SELECT COUNT(*) AS n FROM domains WHERE account_id = ? AND deleted_at IS NULL',
  ),
  verifiedElsewhere: db.prepare<{ n: number }, [string, number]>(
    'SELECT COUNT(*) AS n FROM domains WHERE domain = ? AND account_id <> ? AND verified_at IS NOT NULL AND deleted_at IS NULL',
  ),
  insert: db.prepare(
    `INSERT INTO domains (uuid, account_id, domain, dkim_selector, dkim_public_key, dkim_private_key, sending_subdomain, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
}))

/** Label of the envelope sender's domain. */
export const SENDING_SUBDOMAIN = 'send'

const domainOf = (row: Row): Domain => ({
  id: row.id,
  uuid: new Uint8Array(row.uuid),
  accountId: row.account_id,
  accountUuid: new Uint8Array(row.account_uuid),
  domain: row.domain,
  dkimSelector: row.dkim_selector,
  dkimPublicKey: row.dkim_public_key,
  sendingSubdomain: row.sending_subdomain,
  verified: {
    spf: row.spf_verified === 1,
    dkim: row.dkim_verified === 1,
    dmarc: row.dmarc_verified === 1,
    return_path: row.return_path_verified === 1,
    mx: row.mx_verified === 1,
  },
  inboundEnabled: row.inbound_enabled === 1,
  mxVerifiedAt: row.mx_verified_at,
  verifiedAt: row.verified_at,
  checkedAt: row.checked_at,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})

/** What the DNS records of a domain follow from. */
export const dnsOf = (config: Config, domain: Domain): DomainDns => ({
  domain: domain.domain,
  selector: domain.dkimSelector,
  dkimPublicKey: domain.dkimPublicKey,
  sendingSubdomain: domain.sendingSubdomain,
  hostname: config.hostname,
  outboundIps: config.outboundIps,
})

export const recordsOf = (config: Config, domain: Domain): DnsRecords =>
  dnsRecordsFor({ ...dnsOf(config, domain), verified: domain.verified })

/** The account's domain with this public id; throws 404. */
export function getDomain(db: Database, accountId: number, id: string): Domain {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).byUuid.get(uuid, accountId)
  if (!row) throw notFound('domain_not_found', 'There is no domain with this id.')
  return domainOf(row)
}

export function findDomainByName(db: Database, accountId: number, domain: string): Domain | undefined {
  const row = sql(db).byName.get(domain, accountId)
  return row ? domainOf(row) : undefined
}

export function listDomains(
  db: Database,
  accountId: number,
  page: { limit: number; offset: number },
): { domains: Domain[]; total: number } {
  return {
    domains: sql(db).page.all(accountId, page.limit, page.offset).map(domainOf),
    total: sql(db).count.get(accountId)?.n ?? 0,
  }
}

export interface CreatedDomain {
  readonly domain: Domain
  readonly warnings: readonly string[]
}

/**
 * Registers a domain and makes its DKIM key. 409 when the account has it, or another account has it verified; 422 for what cannot be registered.
 */
export async function createDomain(app: App, actor: Actor, name: string): Promise<CreatedDomain> {
  const checked = validateDomainName(name)
  if (checked.kind === 'invalid') throw invalid('domain', checked.reason, 'invalid_domain')
  const { domain } = checked
  requireFree(app.db, actor.accountId, domain)
  const key = await generateDkimKey()
  const uuid = newUuid()
  const id = formatUuid(uuid)
  // Distinct per registration, so that two accounts with the same domain, or a second registration, never share a DNS name.
  const selector = `ts${randomBase62(8).toLowerCase()}`
  const sealed = app.keys.seal(key.privateKeyPem, dkimKeyContext(uuid))
  const created = await app.commit.write((tx) => {
    requireFree(tx.db, actor.accountId, domain)
    const now = app.eventTime()
    sql(tx.db).insert.run(uuid, actor.accountId, domain, selector, key.publicKey, sealed, SENDING_SUBDOMAIN, now, now)
    audit(app, tx, actor, { action: 'domain.created', resourceType: 'domain', resourceId: id, metadata: { domain } })
    return getDomain(tx.db, actor.accountId, id)
  })
  return { domain: created, warnings: warningsOf(domain) }
}

function requireFree(db: Database, accountId: number, domain: string): void {
  if (sql(db).byName.get(domain, accountId))
    throw conflict('domain_exists', `${domain} is already registered on this account.`)
  if ((sql(db).verifiedElsewhere.get(domain, accountId)?.n ?? 0) > 0) {
    throw conflict('domain_taken', `${domain} is registered and verified by another account.`)
  }
}

function warningsOf(domain: string): string[] {
  if (!domain.startsWith(`${SENDING_SUBDOMAIN}.`)) return []
  const parent = domain.slice(SENDING_SUBDOMAIN.length + 1)
  return [
    `${domain} already carries the sending subdomain: its envelope sender will be ${SENDING_SUBDOMAIN}.${domain}. To send as @${parent}, register ${parent} instead.`,
  ]
}
