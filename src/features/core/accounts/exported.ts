/** @module When an account was last exported as a whole. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'

const sql = prepared((db) => ({
  get: db.prepare<{ at: Millis | null }, [number]>('SELECT exported_at AS at FROM accounts WHERE id = ?'),
  set: db.prepare('UPDATE accounts SET exported_at = ? WHERE id = ?'),
}))

/** When the last export was completed; undefined: none was. */
export const exportedAt = (db: Database, accountId: number): Millis | undefined =>
  sql(db).get.get(accountId)?.at ?? undefined

export const noteExported = (tx: Tx, accountId: number, at: Millis): void => void sql(tx.db).set.run(at, accountId)
