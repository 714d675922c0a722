/**
 * @module Erases the complainant from complaints. The rows stay, because stats and rates count them; the raw report,
 * which contains the address, is deleted.
 */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  ofEmail: db.prepare<{ id: number; recipientId: number | null; rawRef: number | null }, [number]>(
    'SELECT id, recipient_id AS recipientId, raw_ref AS rawRef FROM complaints WHERE email_id = ? AND (raw_ref IS NOT NULL OR reporter IS NOT NULL)',
  ),
  erase: db.prepare('UPDATE complaints SET reporter = NULL, raw_ref = NULL WHERE id = ?'),
}))

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
