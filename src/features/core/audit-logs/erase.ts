/**
 * @module Erases personal fields of audit entries together with the salt of their digest: the action, its time and the
 * kind of resource stay, and the chain still verifies. Works in steps; the caller stores the cursor. Also deletes the
 * oldest entries: the hash of the last deleted one stays as the anchor on which the first remaining entry builds.
 */

import type { App } from '#features/core/app/app.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { ERASED, setChainAnchor } from './chain.ts'
import type { StoredAuditEntry } from './read.ts'

type EntryTexts = Pick<StoredAuditEntry, 'id' | 'actorId' | 'ipAddress' | 'resourceId' | 'metadata'>

const sql = prepareStatements((db) => ({
  // The salt is null only in erased entries, so no entry is erased twice.
  ofAccount: db.prepare<EntryTexts, [number, number, number]>(
    `SELECT id, actor_id AS actorId, ip_address AS ipAddress, resource_id AS resourceId, metadata FROM audit_logs
     WHERE account_id = ? AND id > ? AND salt IS NOT NULL ORDER BY id LIMIT ?`,
  ),
  erase: db.prepare<unknown, [string, number]>(
    'UPDATE audit_logs SET actor_id = ?, ip_address = NULL, resource_id = NULL, metadata = NULL, salt = NULL WHERE id = ?',
  ),
  // Times never decrease along the ids, so the oldest entries come first.
  oldest: db.prepare<{ id: number; hash: Uint8Array; createdAt: Millis }, [number]>(
    'SELECT id, hash, created_at AS createdAt FROM audit_logs ORDER BY id LIMIT ?',
  ),
  removeUpTo: db.prepare('DELETE FROM audit_logs WHERE id <= ?'),
}))

export interface ErasureStep {
  /** Entries erased in this step. */
  readonly rows: number
  /** Cursor of the next step; undefined after the last. */
  readonly next: number | undefined
}

export interface TextErasure {
  readonly accountId: number
  /** `next` of the previous step; 0 at first. */
  readonly after: number
  /** Number of entries to read; 500 take about 1 ms. */
  readonly limit: number
  /** Whether a text concerns the person; called for each personal field, with metadata as JSON. */
  readonly matches: (text: string) => boolean
}

/**
 * Erases one batch of the account's entries that concern a person. All personal fields of such an entry are erased,
 * because they share one digest.
 */
export function eraseMatchingAuditEntries(tx: Tx, { accountId, after, limit, matches }: TextErasure): ErasureStep {
  const entries = sql(tx.db).ofAccount.all(accountId, after, limit)
  const matching = entries.filter(({ actorId, ipAddress, resourceId, metadata }) =>
    [actorId, ipAddress, resourceId, metadata].some((text) => text !== null && matches(text)),
  )
  for (const { id } of matching) sql(tx.db).erase.run(ERASED, id)
  return { rows: matching.length, next: entries.length < limit ? undefined : entries.at(-1)?.id }
}

/**
 * Erases the personal fields of one batch of the account's entries.
 * @param after `next` of the previous step; without it, every step scans the erased entries again
 */
export const eraseAccountAuditEntries = (tx: Tx, accountId: number, limit: number, after = 0): ErasureStep =>
  eraseMatchingAuditEntries(tx, { accountId, after, limit, matches: () => true })

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
