/** @module Forgets the complaints about an email that goes. Counters and rates stay as they are: they tell of the hour in which each came in. */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { Millis } from '#platform/clock.ts'
import type { ContentRef } from '#platform/content/store.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  newest: db.prepare<{ at: Millis | null }, [number]>(
    'SELECT max(created_at) AS at FROM complaints WHERE email_id = ?',
  ),
  delete: db.prepare<{ rawRef: ContentRef | null }, [number]>(
    'DELETE FROM complaints WHERE email_id = ? RETURNING raw_ref AS rawRef',
  ),
}))

/** When the last complaint about an email came in; undefined when none did. */
export const findLastComplaintAt = (tx: Tx, emailId: number): Millis | undefined =>
  sql(tx.db).newest.get(emailId)?.at ?? undefined

/** Removes all complaints about an email, and lets go of the reports that told them. */
export function deleteComplaints(app: App, tx: Tx, emailId: number): void {
  const rows = sql(tx.db).delete.all(emailId)
  dropContent(app, tx, { rawMail: rows.map(({ rawRef }) => rawRef) })
}
