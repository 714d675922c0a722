/**
 * @module Removes an address from abuse findings: indicators quote hosts and phrases, which may identify a person. The
 * findings themselves stay.
 */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  after: db.prepare<{ id: number; detail: string }, [number, number, number]>(
    'SELECT id, detail FROM abuse_findings WHERE account_id = ? AND id > ? AND detail IS NOT NULL ORDER BY id LIMIT ?',
  ),
  setDetail: db.prepare('UPDATE abuse_findings SET detail = ? WHERE id = ?'),
}))

/** Rows checked in one transaction: some 2 ms. */
const BATCH_SIZE = 200

/**
 * Erases the address from one batch of an account's findings.
 * @param which.erased returns the text without the address; if the text does not contain the address, returns it
 * unchanged. JSON stays JSON.
 * @returns `next`: the row to continue after; undefined at the end
 */
export function eraseInFindings(
  tx: Tx,
  which: { readonly accountId: number; readonly after: number; readonly erased: (text: string) => string },
): { readonly rows: number; readonly next: number | undefined } {
  const rows = sql(tx.db).after.all(which.accountId, which.after, BATCH_SIZE)
  let changed = 0
  for (const { id, detail } of rows) {
    const erased = which.erased(detail)
    if (erased === detail) continue
    sql(tx.db).setDetail.run(erased, id)
    changed++
  }
  return { rows: changed, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
