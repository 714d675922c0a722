/** @module Recipients of a broadcast that are not handed to delivery yet, as they were when they were fixed. Never writes. */
import type { Database } from 'bun:sqlite'
import type { BroadcastContact } from '#features/setup/templates/broadcast-data.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'

export interface SnapshotRecipient {
  readonly contactId: number
  readonly contactUuid: Uint8Array
  readonly email: string
  /** JSON object; null: empty. */
  readonly metadata: string | null
}

const sql = prepareStatements((db) => ({
  first: db.prepare<SnapshotRecipient, [number, number]>(
    `SELECT contact_id AS contactId, contact_uuid AS contactUuid, email, metadata FROM broadcast_recipients WHERE broadcast_id = ?
     ORDER BY contact_id LIMIT ?`,
  ),
}))

/** The first of them, in the order of the list. */
export const readFirstRecipients = (db: Database, broadcastId: number, limit: number): SnapshotRecipient[] =>
  sql(db).first.all(broadcastId, limit)

/** As templates see them. */
export const toBroadcastContact = ({ contactUuid, email, metadata }: SnapshotRecipient): BroadcastContact => ({
  id: formatUuid(contactUuid),
  email,
  metadata: JSON.parse(metadata ?? '{}') as Record<string, unknown>,
})
