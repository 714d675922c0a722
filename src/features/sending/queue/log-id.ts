/** @module How log lines name an email: by its public id, so that a line leads to `tassis emails show`, and an id to its lines. */
import type { Database } from 'bun:sqlite'
import { prepared } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'

const sql = prepared((db) => ({
  uuid: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM emails WHERE id = ?'),
}))

/** The public id of an email; null when it is gone. Never throws: a line about trouble with the database must not fail of the same trouble. */
export function logIdOf(db: Database, emailId: number): string | null {
  try {
    const email = sql(db).uuid.get(emailId)
    return email && formatUuid(email.uuid)
  } catch {
    return null
  }
}
