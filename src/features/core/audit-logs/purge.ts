/**
 * @module Deletes the oldest audit entries. The hash of the last deleted entry stays as the anchor on which the first
 * remaining entry builds.
 */
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { setChainAnchor } from './chain.ts'

const sql = prepareStatements((db) => ({
  // Times never decrease along the ids, so the oldest entries come first.
  oldest: db.prepare<{ id: number; hash: Uint8Array; createdAt: Millis }, [number]>(
    'SELECT id, hash, created_at AS createdAt FROM audit_logs ORDER BY id LIMIT ?',
  ),
  removeUpTo: db.prepare('DELETE FROM audit_logs WHERE id <= ?'),
}))

const BATCH_SIZE = 200

/** Deletes entries older than `before`, oldest first, in its own transactions. Returns their number. */
export async function purgeAuditLog(app: App, before: Millis): Promise<number> {
  for (let removed = 0; ; ) {
    const rows = await app.commit.writeFromReserve((tx) => purgeAuditEntries(tx, before, BATCH_SIZE))
    removed += rows
    if (rows < BATCH_SIZE) return removed
  }
}

/** Deletes one batch in the caller's transaction and returns the number of entries deleted. */
export function purgeAuditEntries(tx: Tx, before: Millis, limit: number): number {
  const entries = sql(tx.db).oldest.all(limit)
  const firstKept = entries.findIndex(({ createdAt }) => createdAt >= before)
  const old = firstKept < 0 ? entries : entries.slice(0, firstKept)
  const last = old.at(-1)
  if (!last) return 0
  setChainAnchor(tx.db, last.id, new Uint8Array(last.hash))
  sql(tx.db).removeUpTo.run(last.id)
  return old.length
}
