/**
 * @module Removes complaints: those about a deleted email, and of the others the complainant, for privacy. Counters and
 * rates stay: they describe the hour in which each complaint arrived. The raw report, which contains the address, is
 * deleted.
 */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { ContentRef } from '#platform/content/store.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'

const sql = prepareStatements((db) => ({
  newest: db.prepare<{ at: Millis | null }, [number]>(
    'SELECT max(created_at) AS at FROM complaints WHERE email_id = ?',
  ),
  delete: db.prepare<{ rawRef: ContentRef | null }, [number]>(
    'DELETE FROM complaints WHERE email_id = ? RETURNING raw_ref AS rawRef',
  ),
  ofEmail: db.prepare<{ id: number; recipientId: number | null; rawRef: number | null }, [number]>(
    'SELECT id, recipient_id AS recipientId, raw_ref AS rawRef FROM complaints WHERE email_id = ? AND (raw_ref IS NOT NULL OR reporter IS NOT NULL)',
  ),
  erase: db.prepare('UPDATE complaints SET reporter = NULL, raw_ref = NULL WHERE id = ?'),
}))

/** When the last complaint about an email arrived; undefined: none did. */
export const findLastComplaintAt = (tx: Tx, emailId: number): Millis | undefined =>
  sql(tx.db).newest.get(emailId)?.at ?? undefined

/** Deletes all complaints about an email, and drops the references to their raw reports. */
export function deleteComplaints(app: App, tx: Tx, emailId: number): void {
  const rows = sql(tx.db).delete.all(emailId)
  dropContent(app, tx, { rawMail: rows.map(({ rawRef }) => rawRef) })
}

/** Erases the complaints of some recipients of an email, and those without a known recipient. Returns their number. */
export function eraseComplaints(
  app: Pick<App, 'contentDropped'>,
  tx: Tx,
  emailId: number,
  recipientIds: readonly number[],
): number {
  const rows = sql(tx.db)
    .ofEmail.all(emailId)
    .filter(({ recipientId }) => recipientId === null || recipientIds.includes(recipientId))
  for (const { id } of rows) sql(tx.db).erase.run(id)
  dropContent(app, tx, { rawMail: rows.map(({ rawRef }) => rawRef) })
  return rows.length
}
