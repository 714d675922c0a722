/**
 * @module Deletes the complaints about a deleted email. Counters and rates stay: they describe the hour in which each
 * complaint arrived.
 */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { ContentRef } from '#platform/content/store.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'

const sql = prepareStatements((db) => ({
  newest: db.prepare<{ at: Millis | null }, [number]>(
    'SELECT max(created_at) AS at FROM complaints WHERE email_id = ?',
  ),
  delete: db.prepare<{ rawRef: ContentRef | null }, [number]>(
    'DELETE FROM complaints WHERE email_id = ? RETURNING raw_ref AS rawRef',
  ),
}))

/** When the last complaint about an email arrived; undefined: none did. */
export const findLastComplaintAt = (tx: Tx, emailId: number): Millis | undefined =>
  sql(tx.db).newest.get(emailId)?.at ?? undefined

/** Deletes all complaints about an email, and drops the references to their raw reports. */
export function deleteComplaints(app: App, tx: Tx, emailId: number): void {
  const rows = sql(tx.db).delete.all(emailId)
  dropContent(app, tx, { rawMail: rows.map(({ rawRef }) => rawRef) })
}
