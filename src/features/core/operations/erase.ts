/** @module Takes a person out of what operations say: the errors of an import quote the lines at fault. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  after: db.prepare<{ id: number; errorSummary: string | null; metadata: string | null }, [number, number, number]>(
    `SELECT id, error_summary AS errorSummary, metadata FROM operations WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  set: db.prepare('UPDATE operations SET error_summary = ?, metadata = ? WHERE id = ?'),
}))

/** Rows that are looked at in one transaction: some 3 ms. */
const BATCH_SIZE = 100

/**
 * Looks at some operations of an account after a row.
 * @param which.erased a text without the person; the same text where he is not in it. JSON stays JSON.
 * @returns `next` where to go on; undefined: all were looked at
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
