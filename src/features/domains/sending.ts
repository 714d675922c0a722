/**
 * @module What sending needs of a domain: which one a From address falls under, and its key. Read on every acceptance and delivery.
 */
import type { Database } from 'bun:sqlite'
import type { KeyRing } from '#platform/crypto.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'

export interface SendingDomain {
  readonly id: number
  readonly domain: string
  readonly isVerified: boolean
}

export interface SigningDomain {
  readonly id: number
  readonly domain: string
  readonly selector: string
  /** Domain of the envelope sender. */
  readonly returnPathDomain: string
  readonly privateKeyPem: string
}

const sql = prepared((db) => ({
  byName: db.prepare<{ id: number; domain: string; isVerified: number }, [number, string]>(
    'SELECT id, domain, verified_at IS NOT NULL AS isVerified FROM domains WHERE account_id = ? AND domain = ? AND deleted_at IS NULL',
  ),
  byId: db.prepare<
    { id: number; uuid: Uint8Array; domain: string; selector: string; subdomain: string; sealed: Uint8Array },
    [number]
  >(
    `SELECT id, uuid, domain, dkim_selector AS selector, sending_subdomain AS subdomain, dkim_private_key AS sealed FROM domains WHERE id = ?`,
  ),
}))

/** The registered domain that covers a From domain: the nearest verified one at or above it, else the nearest (relaxed alignment, RFC 9989). */
export function findSendingDomain(db: Database, accountId: number, fromDomain: string): SendingDomain | undefined {
  let nearest: SendingDomain | undefined
  for (let name = fromDomain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const row = sql(db).byName.get(accountId, name)
    if (!row) continue
    const found = { id: row.id, domain: row.domain, isVerified: row.isVerified === 1 }
    if (found.isVerified) return found
    nearest ??= found
  }
  return nearest
}

/** Context that seals a domain's DKIM key to its row. */
export const dkimKeyContext = (uuid: Uint8Array): string => `dkim:${formatUuid(uuid)}`

/** The domain with its unsealed key, deleted ones too: their open mail is still signed. Undefined when the row is gone. */
export function signingDomain(db: Database, keys: KeyRing, id: number): SigningDomain | undefined {
  const row = sql(db).byId.get(id)
  if (!row) return undefined
  return {
    id: row.id,
    domain: row.domain,
    selector: row.selector,
    returnPathDomain: `${row.subdomain}.${row.domain}`,
    privateKeyPem: keys.unsealText(row.sealed, dkimKeyContext(row.uuid)),
  }
}
