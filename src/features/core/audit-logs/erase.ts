/**
 * @module Erasure in the audit log: the personal fields of entries go, with the salt of their digest; that something was done, when and to what kind of
 * thing stays, and the chain still verifies. In steps; the caller keeps where it is.
 */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { ERASED } from './chain.ts'

interface EntryTexts {
  readonly id: number
  readonly actorId: string
  readonly ipAddress: string | null
  readonly resourceId: string | null
  readonly metadata: string | null
}

const sql = prepareStatements((db) => ({
  // The salt is null only where the rest is: no entry is erased twice.
  ofAccount: db.prepare<EntryTexts, [number, number, number]>(
    `SELECT id, actor_id AS actorId, ip_address AS ipAddress, resource_id AS resourceId, metadata FROM audit_logs
     WHERE account_id = ? AND id > ? AND salt IS NOT NULL ORDER BY id LIMIT ?`,
  ),
  erase: db.prepare<unknown, [string, number]>(
    'UPDATE audit_logs SET actor_id = ?, ip_address = NULL, resource_id = NULL, metadata = NULL, salt = NULL WHERE id = ?',
  ),
  left: db.prepare<{ id: number }, [number, number]>(
    'SELECT id FROM audit_logs WHERE account_id = ? AND id > ? AND salt IS NOT NULL ORDER BY id LIMIT 1',
  ),
}))

export interface ErasureStep {
  /** Entries erased by this step. */
  readonly rows: number
  /** Where the next step begins; undefined: this was the last. */
  readonly next: number | undefined
}

export interface TextErasure {
  readonly accountId: number
  /** `next` of the step before; 0 at first. */
  readonly after: number
  /** Entries that are looked at; about 1 ms for each 500. */
  readonly limit: number
  /** Whether a text is about the person; asked for each personal field, metadata being JSON. */
  readonly matches: (text: string) => boolean
}

/** One step of erasing the entries of an account that are about a person, each as a whole: its fields have one digest together. */
export function eraseMatchingAuditEntries(tx: Tx, { accountId, after, limit, matches }: TextErasure): ErasureStep {
  const entries = sql(tx.db).ofAccount.all(accountId, after, limit)
  const matching = entries.filter(({ actorId, ipAddress, resourceId, metadata }) =>
    [actorId, ipAddress, resourceId, metadata].some((text) => text !== null && matches(text)),
  )
  for (const { id } of matching) sql(tx.db).erase.run(ERASED, id)
  return { rows: matching.length, next: findNextCursor(tx.db, accountId, entries, limit) }
}

/**
 * One step of erasing the personal fields of all entries of an account.
 * @param after `next` of the step before. Without it a step passes all that were erased already, and the next one too.
 */
export function eraseAccountAuditEntries(tx: Tx, accountId: number, limit: number, after = 0): ErasureStep {
  const entries = sql(tx.db).ofAccount.all(accountId, after, limit)
  for (const { id } of entries) sql(tx.db).erase.run(ERASED, id)
  return { rows: entries.length, next: findNextCursor(tx.db, accountId, entries, limit) }
}

function findNextCursor(
  db: Database,
  accountId: number,
  entries: readonly EntryTexts[],
  limit: number,
): number | undefined {
  const last = entries.at(-1)
  if (!last || entries.length < limit) return undefined
  return sql(db).left.get(accountId, last.id) ? last.id : undefined
}
