/** @module Rewrites the hash chain of the audit log as a whole, as somebody who can write the database could. */
import type { Database } from 'bun:sqlite'
import {
  computeDigest,
  computeHash,
  GENESIS_HASH,
  type PermanentFields,
  type PersonalFields,
  setChainHead,
} from '#features/core/audit-logs/chain.ts'

export function rewriteAuditChain(db: Database): void {
  let before: Uint8Array = GENESIS_HASH
  const entries = db
    .query<PermanentFields & PersonalFields & { salt: Uint8Array }, []>(
      `SELECT id, uuid, account_id AS accountId, actor_type AS actorType, actor_id AS actorId, action, resource_type AS resourceType,
       resource_id AS resourceId, ip_address AS ipAddress, metadata, created_at AS createdAt, salt FROM audit_logs ORDER BY id`,
    )
    .all()
  for (const entry of entries) {
    const digest = computeDigest(entry.salt, entry)
    before = computeHash(before, entry, digest)
    db.run('UPDATE audit_logs SET digest = ?, hash = ? WHERE id = ?', [digest, before, entry.id])
    setChainHead(db, entry.id, before)
  }
}
