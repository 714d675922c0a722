/** @module Reads broadcast recipients that are not enqueued yet, as the snapshot holds them. Never writes. */
import type { Database } from 'bun:sqlite'
import type { BroadcastContact } from '#features/setup/templates/broadcast-data.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'

export interface SnapshotRecipient {
  readonly contactId: number
  readonly contactUuid: Uint8Array
  readonly email: string
  /** JSON object; null when empty. */
  readonly metadata: string | null
}

const sql = prepareStatements((db) => ({
  first: db.prepare<SnapshotRecipient, [number, number]>(
    `SELECT contact_id AS contactId, contact_uuid AS contactUuid, email, metadata FROM broadcast_recipients WHERE broadcast_id = ?
     ORDER BY contact_id LIMIT ?`,
  ),
}))

/** The first recipients, in list order. */
export const readFirstRecipients = (db: Database, broadcastId: number, limit: number): SnapshotRecipient[] =>
  sql(db).first.all(broadcastId, limit)

/** A recipient in the form that templates see. */
export const toBroadcastContact = ({ contactUuid, email, metadata }: SnapshotRecipient): BroadcastContact => ({
  id: formatUuid(contactUuid),
  email,
  metadata: JSON.parse(metadata ?? '{}') as Record<string, unknown>,
})
