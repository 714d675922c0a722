/**
 * @module Names emails and recipients outside of the database: Message-ID, id in log lines, tag of a return path. After
 * a restored backup, row ids of lost emails are used again, so a name leads to a row only if that is still the one it
 * was made for. Never writes.
 */

import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { formatUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { computeVerpTag, type VerpRecipient } from '#protocols/address/verp.ts'

/** The Message-ID of an email, with angle brackets; derived, so that it costs no column. RFC 5322 §3.6.4. */
export const messageIdOf = (uuid: Uint8Array, from: string): string => `<${formatUuid(uuid)}@${domainOfMailbox(from)}>`

const emailSql = prepareStatements((db) => ({
  uuid: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM emails WHERE id = ?'),
}))

/** The public id of an email; null when it is gone. Never throws: a line about trouble with the database must not fail of the same trouble. */
export function findLogId(db: Database, emailId: number): string | null {
  try {
    const email = emailSql(db).uuid.get(emailId)
    return email && formatUuid(email.uuid)
  } catch {
    return null
  }
}

/** Row id of nobody: the recipient was lost. */
export const LOST_RECIPIENT = 0

const recipientSql = prepareStatements((db) => ({
  email: db.prepare<{ id: number; uuid: UuidBytes }, [number]>(
    'SELECT emails.id, uuid FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?',
  ),
}))

/** The recipient that an address names; LOST_RECIPIENT when its row is another one by now. A row that is no longer there is not looked for. */
export function findVerpRecipient(db: Database, { recipientId, tag }: VerpRecipient): number {
  const email = recipientSql(db).email.get(recipientId)
  return email && tag !== 0 && computeVerpTag(email.uuid) !== tag ? LOST_RECIPIENT : recipientId
}
