/** @module Reads a recipient in the form that links of its email contain, from the database. */
import type { Database } from 'bun:sqlite'
import { accountTag, dayOf, type TrackedRecipient } from '#features/sending/tracking/tokens.ts'

export function readTrackedRecipient(db: Database, recipientId: number): TrackedRecipient {
  const row = db
    .query<{ uuid: Uint8Array; at: number }, [number]>(
      `SELECT accounts.uuid AS uuid, emails.created_at AS at FROM recipients JOIN emails ON emails.id = email_id
       JOIN accounts ON accounts.id = account_id WHERE recipients.id = ?`,
    )
    .get(recipientId)
  if (!row) throw new Error(`no recipient ${recipientId}`)
  return { account: accountTag(row.uuid), recipientId, day: dayOf(row.at) }
}
