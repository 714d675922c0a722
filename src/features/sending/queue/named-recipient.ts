/**
 * @module Whether the row that an address or a link of ours names is still the one that it was made for. After a restored backup, the row ids of emails that
 * were lost are given out again, and what comes back for the lost ones must not hit somebody else. Reads only.
 */
import type { Database } from 'bun:sqlite'
import { prepared } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { type VerpName, verpTag } from '#protocols/address/verp.ts'

/** Row id of nobody: the recipient was lost. */
export const LOST_RECIPIENT = 0

const sql = prepared((db) => ({
  email: db.prepare<{ id: number; uuid: UuidBytes }, [number]>(
    'SELECT emails.id, uuid FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?',
  ),
}))

/** The recipient that an address names; LOST_RECIPIENT when its row is another one by now. A row that is no longer there is not looked for. */
export function recipientOfVerp(db: Database, { recipientId, tag }: VerpName): number {
  const email = sql(db).email.get(recipientId)
  return email && tag !== 0 && verpTag(email.uuid) !== tag ? LOST_RECIPIENT : recipientId
}
