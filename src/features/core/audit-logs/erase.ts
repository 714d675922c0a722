/**
 * @module Erases personal fields of audit entries together with the salt of their digest. The action, its time and the
 * kind of resource stay, and the chain still verifies. Works in steps; the caller stores the cursor.
 */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { ERASED } from './chain.ts'
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
