/**
 * @module Deletes the open and click data of an email. Its events stay; its pixel and links still work but record
 * nothing.
 */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  opens: db.prepare('DELETE FROM opens WHERE recipient_id = ?'),
  marks: db.prepare('DELETE FROM click_marks WHERE recipient_id = ?'),
  links: db.prepare('DELETE FROM link_clicks WHERE email_id = ?'),
}))

/** Deletes the counts of opens and clicks of an email and its recipients. */
export function deleteEngagement(tx: Tx, emailId: number, recipientIds: readonly number[]): void {
  const { opens, marks, links } = sql(tx.db)
  links.run(emailId)
  for (const id of recipientIds) {
    opens.run(id)
    marks.run(id)
  }
}
