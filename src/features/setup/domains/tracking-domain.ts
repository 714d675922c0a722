/**
 * @module Finds the host that serves tracked links, its owner and the target of its CNAME. Read for every tracked
 * message, and by the reverse proxy before it creates a certificate. A host that is unverified, or whose domain was
 * deleted, does not count.
 * `set-tracking.ts` says to which account a host belongs.
 */
import type { Database } from 'bun:sqlite'
import { isIP } from 'node:net'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'

interface AccountRow {
  accountId: number
  uuid: Uint8Array
}

const SELECT_ACCOUNT =
  'SELECT account_id AS accountId, accounts.uuid AS uuid FROM domains JOIN accounts ON accounts.id = account_id'

const sql = prepareStatements((db) => ({
  ofDomain: db.prepare<{ host: string; accountId: number }, [number]>(
    `SELECT tracking_domain AS host, account_id AS accountId FROM domains
     WHERE id = ? AND tracking_domain IS NOT NULL AND tracking_verified_at IS NOT NULL AND domains.deleted_at IS NULL`,
  ),
  byHost: db.prepare<AccountRow, [string]>(
    `${SELECT_ACCOUNT} WHERE tracking_domain = ? AND tracking_verified_at IS NOT NULL AND domains.deleted_at IS NULL`,
  ),
  verified: db.prepare<{ host: string; accountId: number }, []>(
    `SELECT tracking_domain AS host, account_id AS accountId FROM domains
     WHERE tracking_domain IS NOT NULL AND tracking_verified_at IS NOT NULL AND deleted_at IS NULL`,
  ),
  ofAccount: db.prepare<{ 1: number }, [string, number]>(
    'SELECT 1 FROM domains WHERE tracking_domain = ? AND account_id = ? AND deleted_at IS NULL',
  ),
  verifiedBy: db.prepare<AccountRow, [string]>(
    `${SELECT_ACCOUNT} WHERE domain = ? AND verified_at IS NOT NULL AND domains.deleted_at IS NULL`,
  ),
}))

/**
 * The verified tracking host of a domain, in A-labels and lower case; null: its links use the service's own URL.
 * @param domainId id of the row, not the public one
 */
export function findTrackingHost(db: Database, domainId: number): string | null {
  const row = sql(db).ofDomain.get(domainId)
  return row && !isHostElsewhere(db, row.accountId, row.host) ? row.host : null
}

/** Whether `host`, a bare name without a port, is the verified tracking host of any account. */
export function isTrackingHost(db: Database, host: string): boolean {
  const name = normaliseHost(host)
  const row = sql(db).byHost.get(name)
  return row !== null && !isHostElsewhere(db, row.accountId, name)
}

export const listTrackingHosts = (db: Database): string[] =>
  sql(db)
    .verified.all()
    .filter(({ accountId, host }) => !isHostElsewhere(db, accountId, host))
    .map(({ host }) => host)

/**
 * Whether `host` serves our pages as far as an account can know: our public host, a verified tracking host of any
 * account, or one that this account has set, verified or not.
 * @param host as `normaliseHost` returns it
 */
export const isOwnHost = (
  db: Database,
  config: Pick<Config, 'publicUrl'>,
  { accountId, host }: { readonly accountId: number; readonly host: string },
): boolean =>
  host === getPublicHost(config) || isTrackingHost(db, host) || sql(db).ofAccount.get(host, accountId) !== null

/**
 * UUID of the account whose links a verified tracking host serves; undefined for any other host.
 * @param host a bare name without a port
 */
export function findTrackingHostAccount(db: Database, host: string): UuidBytes | undefined {
  const name = normaliseHost(host)
  const row = sql(db).byHost.get(name)
  return row ? (findOwnerRow(db, name) ?? row).uuid : undefined
}

/**
 * Whether the host belongs to another account: one that has verified the nearest domain at or above it.
 * @param host in A-labels and lower case
 */
export function isHostElsewhere(db: Database, accountId: number, host: string): boolean {
  const owner = findHostOwner(db, host)
  return owner !== undefined && owner !== accountId
}

/**
 * Row id of the account that has verified the nearest domain at or above `host`.
 * @param host in A-labels and lower case
 */
export const findHostOwner = (db: Database, host: string): number | undefined => findOwnerRow(db, host)?.accountId

function findOwnerRow(db: Database, host: string): AccountRow | undefined {
  for (let name = host; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const row = sql(db).verifiedBy.get(name)
    if (row) return row
  }
  return undefined
}

/**
 * The name to which the CNAME of a tracking host points, in lower case: the host of our public URL if that is a full
 * name, else our host name.
 */
export function getCnameTarget({ publicUrl, hostname }: Pick<Config, 'publicUrl' | 'hostname'>): string {
  const host = getPublicHost({ publicUrl })
  return host.includes('.') && isIP(host) === 0 ? host : normaliseHost(hostname)
}

/** The host of our public URL: a name in A-labels and lower case, or an IP address. */
export const getPublicHost = ({ publicUrl }: Pick<Config, 'publicUrl'>): string =>
  normaliseHost(new URL(publicUrl).hostname).replace(/^\[(.*)\]$/, '$1')

/** A host name in lower case, without a trailing dot. */
export const normaliseHost = (host: string): string => host.toLowerCase().replace(/\.$/, '')
