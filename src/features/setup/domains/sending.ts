/**
 * @module Finds the registered domain that covers a From address, and the key that signs its mail. Read on every
 * acceptance and delivery.
 */
import type { Database } from 'bun:sqlite'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { type AppError, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { formatMailbox, parseMailbox } from '#protocols/address/parse.ts'
import { type DnsRecordKey, toEd25519Selector } from './dns-records.ts'
import type { domains } from './tables.ts'

export interface SendingDomain {
  readonly id: number
  readonly domain: string
  readonly isVerified: boolean
  /**
   * Set when the domain was verified and has lacked records for over 72 hours: the domain sends nothing, and its mail
   * is not captured either.
   */
  readonly lapsed: { readonly since: Millis; readonly lost: readonly DnsRecordKey[] } | undefined
}

export interface SigningDomain {
  readonly id: number
  readonly domain: string
  readonly selector: string
  /** Domain of the envelope sender. */
  readonly returnPathDomain: string
  readonly privateKeyPem: string
  /** The second key (RFC 8463), while its record is published. */
  readonly ed25519: { readonly selector: string; readonly privateKeyPem: string } | undefined
}

type Flags = Readonly<Record<'spf' | 'dkim' | 'returnPath', number>>
type SendingRow = Flags &
  Readonly<Pick<typeof domains.$inferSelect, 'id' | 'domain' | 'recordsLostAt'> & { isVerified: number }>
type SigningRow = Readonly<
  Pick<typeof domains.$inferSelect, 'id' | 'uuid' | 'domain'> & {
    selector: string
    subdomain: string
    sealed: Uint8Array
    ed25519: Uint8Array | null
  }
>

const sql = prepareStatements((db) => ({
  byName: db.prepare<SendingRow, [number, string]>(
    `SELECT id, domain, verified_at IS NOT NULL AS isVerified, records_lost_at AS recordsLostAt, spf_verified AS spf, dkim_verified AS dkim,
       return_path_verified AS returnPath FROM domains WHERE account_id = ? AND domain = ? AND deleted_at IS NULL`,
  ),
  byId: db.prepare<SigningRow, [number]>(
    `SELECT id, uuid, domain, dkim_selector AS selector, sending_subdomain AS subdomain, dkim_private_key AS sealed,
       CASE WHEN ed25519_verified = 1 THEN ed25519_private_key END AS ed25519 FROM domains WHERE id = ?`,
  ),
}))

/**
 * The registered domain that covers a From domain: the nearest verified one at or above it (relaxed alignment, RFC
 * 9989), else the nearest that was once verified, so that live mail never lands in the sandbox, else the nearest.
 */
export function findSendingDomain(db: Database, accountId: number, fromDomain: string): SendingDomain | undefined {
  let nearest: SendingDomain | undefined
  for (let name = fromDomain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const row = sql(db).byName.get(accountId, name)
    if (!row) continue
    const found = toSendingDomain(row)
    if (found.isVerified) return found
    if (!nearest || (found.lapsed && !nearest.lapsed)) nearest = found
  }
  return nearest
}

/**
 * The account's nearest verified domain above a registered domain that is not verified: its key signs the mail of that
 * domain.
 */
export function findCoveringDomain(
  db: Database,
  { accountId, domain, verifiedAt }: { accountId: number; domain: string; verifiedAt: Millis | null },
): string | undefined {
  if (verifiedAt !== null) return undefined
  const found = findSendingDomain(db, accountId, domain.slice(domain.indexOf('.') + 1))
  return found?.isVerified ? found.domain : undefined
}

function toSendingDomain({ id, domain, isVerified, recordsLostAt, spf, dkim, returnPath }: SendingRow): SendingDomain {
  if (isVerified === 1 || recordsLostAt === null) return { id, domain, isVerified: isVerified === 1, lapsed: undefined }
  const flags = { spf, dkim, return_path: returnPath }
  const lost = (Object.keys(flags) as (keyof typeof flags)[]).filter((key) => flags[key] === 0)
  return { id, domain, isVerified: false, lapsed: { since: recordsLostAt, lost } }
}

/** The 422 for a domain that may not send. */
export function domainNotVerified(field: string, { domain, lapsed }: SendingDomain): AppError {
  const found = lapsed
    ? `The domain ${domain} was verified and has lacked DNS records since ${isoTime(lapsed.since).slice(0, 16)}Z (${lapsed.lost.join(', ')}), for more than 72 hours; publish them again as GET /v1/domains/{id} shows them, then verify it with POST /v1/domains/{id}/verify.`
    : `The domain ${domain} is not verified; publish its DNS records and verify it first.`
  return invalid(field, found, 'domain_not_verified')
}

/** A sender in header form. Throws 422 unless it is an address at a verified domain of the account. */
export function parseSender(db: Database, accountId: number, field: string, text: string): string {
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid(field, `${field}: ${parsed.reason}`, 'invalid_address')
  const domain = findSendingDomain(db, accountId, parsed.domain)
  if (!domain)
    throw invalid(
      field,
      `The domain ${parsed.domain} is not registered on this account; add it with POST /v1/domains and verify it.`,
      'domain_not_found',
    )
  if (!domain.isVerified) throw domainNotVerified(field, domain)
  return formatMailbox(parsed)
}

/** Seal contexts that bind the DKIM keys to their domain's row. */
export const toDkimKeyContext = (uuid: Uint8Array): string => `dkim:${formatUuid(uuid)}`
export const toEd25519KeyContext = (uuid: Uint8Array): string => `${toDkimKeyContext(uuid)}:ed25519`

export const SEALED_COLUMNS: readonly SealedColumns[] = [
  {
    table: 'domains',
    id: 'id',
    owner: 'uuid',
    columns: { dkim_private_key: toDkimKeyContext, ed25519_private_key: toEd25519KeyContext },
  },
  {
    table: 'dkim_keys',
    id: 'id',
    owner: '(SELECT uuid FROM domains WHERE domains.id = domain_id)',
    columns: { dkim_private_key: toDkimKeyContext, ed25519_private_key: toEd25519KeyContext },
  },
]

/**
 * The domain with its unsealed keys, deleted domains included, because their open mail is still signed. Undefined once
 * the row is deleted.
 */
export function findSigningDomain(db: Database, keys: KeyRing, id: number): SigningDomain | undefined {
  const row = sql(db).byId.get(id)
  if (!row) return undefined
  return {
    id: row.id,
    domain: row.domain,
    selector: row.selector,
    returnPathDomain: `${row.subdomain}.${row.domain}`,
    privateKeyPem: keys.unsealText(row.sealed, toDkimKeyContext(row.uuid)),
    ed25519:
      row.ed25519 === null
        ? undefined
        : {
            selector: toEd25519Selector(row.selector),
            privateKeyPem: keys.unsealText(row.ed25519, toEd25519KeyContext(row.uuid)),
          },
  }
}
