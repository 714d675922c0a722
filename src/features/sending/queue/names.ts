/**
 * @module Names emails and recipients outside of the database: Message-ID, id in logs, tag of a return path. After a
 * backup is restored, new rows reuse the row ids of the emails that were lost, so a name matches a row only if it was
 * created for that row. Never writes.
 */

import type { Database } from 'bun:sqlite'
import { attempt } from '#platform/attempt.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { formatUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { computeVerpTag, type VerpRecipient } from '#protocols/address/verp.ts'

/**
 * The Message-ID of an email, with angle brackets (RFC 5322 §3.6.4): derived from its id, unless its client set one.
 * @param ofClient `message_id` in the email's `extra`
 */
export const messageIdOf = (uuid: Uint8Array, from: string, ofClient?: string | null): string =>
  ofClient ?? `<${formatUuid(uuid)}@${domainOfMailbox(from)}>`

const emailSql = prepareStatements((db) => ({
  uuid: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM emails WHERE id = ?'),
}))

/**
 * The public id of an email; null if it does not exist. Never throws: logging a database error must not fail with the
 * same error.
 */
export function findLogId(db: Database, emailId: number): string | null {
  const email = attempt(() => emailSql(db).uuid.get(emailId))
  return email ? formatUuid(email.uuid) : null
}

/** What names an email in a log line, as public ids. Null: it does not exist. */
export interface EmailLogFields {
  readonly email_id: string | null
  readonly account: string | null
}

const logSql = prepareStatements((db) => ({
  email: db.prepare<{ uuid: Uint8Array; accountUuid: Uint8Array }, [number]>(
    'SELECT emails.uuid, accounts.uuid AS accountUuid FROM emails JOIN accounts ON accounts.id = account_id WHERE emails.id = ?',
  ),
  event: db.prepare<{ emailId: number | null }, [number]>('SELECT email_id AS emailId FROM events WHERE seq = ?'),
}))

/** Never throws: logging a database error must not fail with the same error. */
export function findEmailLogFields(db: Database, emailId: number): EmailLogFields {
  const found = attempt(() => logSql(db).email.get(emailId))
  return found
    ? { email_id: formatUuid(found.uuid), account: formatUuid(found.accountUuid) }
    : { email_id: null, account: null }
}

/** The same for the email of a recipient. Never throws. */
export function findRecipientLogFields(db: Database, recipientId: number): EmailLogFields {
  const email = attempt(() => recipientSql(db).email.get(recipientId))
  return email ? findEmailLogFields(db, email.id) : { email_id: null, account: null }
}

/** The same for the email of an event; empty if the event has none. Never throws. */
export function findEventLogFields(db: Database, seq: number | null): EmailLogFields | undefined {
  const emailId = attempt(() => (seq === null ? undefined : logSql(db).event.get(seq)?.emailId))
  return emailId == null ? undefined : findEmailLogFields(db, emailId)
}

/** Stands for a recipient that was lost; no row has this id. */
export const LOST_RECIPIENT = 0

const recipientSql = prepareStatements((db) => ({
  email: db.prepare<{ id: number; uuid: UuidBytes }, [number]>(
    'SELECT emails.id, uuid FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?',
  ),
}))

/**
 * The row id of the recipient in a VERP address, even if no row has this id any more; LOST_RECIPIENT if the id now
 * belongs to another recipient.
 */
export function findVerpRecipient(db: Database, { recipientId, tag }: VerpRecipient): number {
  const email = recipientSql(db).email.get(recipientId)
  return email && computeVerpTag(email.uuid) !== tag ? LOST_RECIPIENT : recipientId
}
