/** @module Reads the audit log of an account. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'

export interface StoredAuditEntry {
  readonly uuid: UuidBytes
  readonly actorType: string
  readonly actorId: string
  readonly action: string
  readonly resourceType: string | null
  readonly resourceId: string | null
  readonly ipAddress: string | null
  /** JSON object. */
  readonly metadata: string | null
  readonly createdAt: Millis
}

const sql = prepared((db) => ({
  page: db.prepare<StoredAuditEntry, [number, number, number]>(
    `SELECT uuid, actor_type AS actorType, actor_id AS actorId, action, resource_type AS resourceType, resource_id AS resourceId,
     ip_address AS ipAddress, metadata, created_at AS createdAt FROM audit_logs WHERE account_id = ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM audit_logs WHERE account_id = ?'),
}))

/** A page of the account's log, newest first. The total is counted in the index. */
export const listAuditEntries = (
  db: Database,
  accountId: number,
  page: { limit: number; offset: number },
): { entries: StoredAuditEntry[]; total: number } => ({
  entries: sql(db).page.all(accountId, page.limit, page.offset),
  total: sql(db).count.get(accountId)?.n ?? 0,
})
