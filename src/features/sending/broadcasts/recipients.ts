/** @module Recipients of a broadcast that are not handed to delivery yet, as they were when they were fixed. Never writes. */
import type { Database } from 'bun:sqlite'
import type { BroadcastContact } from '#features/setup/templates/broadcast-data.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'

export interface FixedRecipient {
  readonly contactId: number
  readonly contactUuid: Uint8Array
  readonly email: string
  /** JSON object; null: empty. */
  readonly metadata: string | null
}

const sql = prepared((db) => ({
  first: db.prepare<FixedRecipient, [number, number]>(
    `SELECT contact_id AS contactId, contact_uuid AS contactUuid, email, metadata FROM broadcast_recipients WHERE broadcast_id = ?
     ORDER BY contact_id LIMIT ?`,
  ),
}))

/** The first of them, in the order of the list. */
export const firstRecipients = (db: Database, broadcastId: number, limit: number): FixedRecipient[] =>
  sql(db).first.all(broadcastId, limit)

/** As templates see them. */
export const contactOf = ({ contactUuid, email, metadata }: FixedRecipient): BroadcastContact => ({
  id: formatUuid(contactUuid),
  email,
  metadata: JSON.parse(metadata ?? '{}') as Record<string, unknown>,
})
