/** @module Erases a person from the texts of operations: import errors quote the invalid lines. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  after: db.prepare<{ id: number; errorSummary: string | null; metadata: string | null }, [number, number, number]>(
    `SELECT id, error_summary AS errorSummary, metadata FROM operations WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  set: db.prepare('UPDATE operations SET error_summary = ?, metadata = ? WHERE id = ?'),
}))

/** Rows read per transaction; this takes about 3 ms. */
const BATCH_SIZE = 100

/**
 * Erases a person from one batch of an account's operations.
 * @param which.erase returns the text without the person, or the same text if it does not contain them; JSON stays JSON
 * @returns `next`, the cursor of the next batch; undefined after the last
 */
export function eraseInOperations(
  tx: Tx,
  which: { readonly accountId: number; readonly after: number; readonly erase: (text: string) => string },
): { readonly rows: number; readonly next: number | undefined } {
  const rows = sql(tx.db).after.all(which.accountId, which.after, BATCH_SIZE)
  const erased = (text: string | null): string | null => (text === null ? null : which.erase(text))
  let changed = 0
  for (const { id, errorSummary, metadata } of rows) {
    const summary = erased(errorSummary)
    const data = erased(metadata)
    if (summary === errorSummary && data === metadata) continue
    sql(tx.db).set.run(summary, data, id)
    changed++
  }
  return { rows: changed, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
