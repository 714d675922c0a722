/**
 * @module Takes a person out of the history of webhooks: what was answered and what went wrong with events that told of him, and whatever else names him.
 * What is still to be told is made of rows that no longer have him.
 */
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'

interface Row {
  readonly id: number
  readonly isOwn: number
  readonly payload: string | null
  readonly response: string | null
  readonly error: string | null
}

const sql = prepared((db) => ({
  webhooks: db.prepare<{ id: number }, [number]>('SELECT id FROM webhooks WHERE account_id = ?'),
  eraseOfEvent: db.prepare(
    `UPDATE webhook_deliveries SET response = NULL, error = NULL, payload = NULL WHERE webhook_id = ? AND seq = ?
     AND (response IS NOT NULL OR error IS NOT NULL OR payload IS NOT NULL)`,
  ),
  after: db.prepare<Row, [number, number, number]>(
    `SELECT d.id, w.id IS NOT NULL AS isOwn, payload, response, error FROM webhook_deliveries d
     LEFT JOIN webhooks w ON w.id = webhook_id AND account_id = ?2 WHERE d.id > ?1 ORDER BY d.id LIMIT ?3`,
  ),
  // A payload that is there is of no event: without it nothing can be sent any more.
  erase: db.prepare(
    `UPDATE webhook_deliveries SET response = NULL, error = NULL, payload = iif(payload IS NULL, NULL, '{}') WHERE id = ?`,
  ),
}))

/** Erases what was answered to some events of an account. Returns how many deliveries that were. */
export function eraseDeliveriesOf(tx: Tx, accountId: number, seqs: readonly number[]): number {
  if (seqs.length === 0) return 0
  let erased = 0
  for (const { id } of sql(tx.db).webhooks.all(accountId))
    for (const seq of seqs) erased += sql(tx.db).eraseOfEvent.run(id, seq).changes
  return erased
}

/** Rows that are looked at in one transaction: some 3 ms. */
const SLICE = 500

/**
 * Looks at some deliveries after a row, and erases in those of the account what matches.
 * @returns `next` where to go on; undefined: all were looked at
 */
export function eraseDeliveries(
  tx: Tx,
  which: { readonly accountId: number; readonly after: number; readonly matches: (text: string) => boolean },
): { readonly rows: number; readonly next: number | undefined } {
  const rows = sql(tx.db).after.all(which.after, which.accountId, SLICE)
  const fitting = rows.filter(
    ({ isOwn, payload, response, error }) =>
      isOwn === 1 && [payload, response, error].some((text) => text !== null && which.matches(text)),
  )
  for (const { id } of fitting) sql(tx.db).erase.run(id)
  return { rows: fitting.length, next: rows.length < SLICE ? undefined : rows.at(-1)?.id }
}
