/** @module Reads emails for other features and the API. Writes nothing. */
import type { Database } from 'bun:sqlite'
import { prepared } from '#platform/db/open.ts'

const sql = prepared((db) => ({
  emailOfRecipient: db.prepare<{ emailId: number }, [number]>('SELECT email_id AS emailId FROM recipients WHERE id = ?'),
}))

/** Row id of the email that a recipient belongs to. */
export const recipientEmailId = (db: Database, recipientId: number): number | undefined => sql(db).emailOfRecipient.get(recipientId)?.emailId
