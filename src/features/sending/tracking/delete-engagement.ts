/** @module Forgets what was opened and clicked in an email. Its events stay; a pixel or link of it that is used later changes nothing and leads on. */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  opens: db.prepare('DELETE FROM opens WHERE recipient_id = ?'),
  marks: db.prepare('DELETE FROM click_marks WHERE recipient_id = ?'),
  links: db.prepare('DELETE FROM link_clicks WHERE email_id = ?'),
}))

/** Removes the counts of opens and clicks of an email, and what is remembered of its recipients for them. */
export function deleteEngagement(tx: Tx, emailId: number, recipientIds: readonly number[]): void {
  const { opens, marks, links } = sql(tx.db)
  links.run(emailId)
  for (const id of recipientIds) {
    opens.run(id)
    marks.run(id)
  }
}
