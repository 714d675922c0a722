/** @module Forgets who opened an email and who clicked in it: the events of that are the feed's (`events/erase.ts`). */
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'

const sql = prepared((db) => ({
  opens: db.prepare('DELETE FROM opens WHERE recipient_id = ?'),
  marks: db.prepare('DELETE FROM click_marks WHERE recipient_id = ?'),
  // A URL may be of one recipient.
  links: db.prepare('DELETE FROM link_clicks WHERE email_id = ?'),
}))

/** Forgets it of some recipients of an email, and the links of the email. Returns how many rows that were. */
export function eraseTracking(tx: Tx, emailId: number, recipientIds: readonly number[]): number {
  const { opens, marks, links } = sql(tx.db)
  const ofRecipients = recipientIds.reduce((sum, id) => sum + opens.run(id).changes + marks.run(id).changes, 0)
  return ofRecipients + links.run(emailId).changes
}
