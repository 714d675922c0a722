/**
 * @module What an email is before and outside of the tables: the types of its parts, its idempotency key, what of it is
 * tracked, and its names: Message-ID, id in logs, tag of a return path. After a backup is restored, new rows reuse the
 * row ids of the emails that were lost, so a name matches a row only if it was created for that row. Never writes.
 */

import type { Database } from 'bun:sqlite'
import type { BroadcastContact } from '#features/setup/templates/broadcast-data.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { attempt, invalid } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { computeVerpTag, type VerpRecipient } from '#protocols/address/verp.ts'
import type { RecipientKind } from './status.ts'

export interface DraftAttachment {
  readonly filename: string
  readonly contentType: string
  /** By which the HTML may refer to it, without angle brackets. */
  readonly contentId?: string
  /** Another form of the text, such as an invitation, or, if it is sealed, the whole message. */
  readonly isAlternative?: boolean
  readonly content: Uint8Array
}

export interface DraftRecipient {
  readonly kind: RecipientKind
  readonly address: string
  /** A-label in lower case; determines the route. */
  readonly domain: string
  /** Header form, if it has more than the address. */
  readonly mailbox: string | undefined
}

/** A checked email, with its template rendered. */
export interface NewEmail {
  readonly from: string
  readonly recipients: readonly DraftRecipient[]
  readonly subject: string
  readonly html: Uint8Array | undefined
  readonly text: Uint8Array | undefined
  readonly attachments: readonly DraftAttachment[]
  /** Undefined: send now. */
  readonly scheduledAt: Millis | undefined
  readonly tracking: TrackingChoice | undefined
  readonly transactional: boolean
  /** Row id of its template. */
  readonly templateId?: number | undefined
  /** Row id of the contact list that it is sent to. */
  readonly listId?: number | undefined
  readonly idempotency: Idempotency | undefined
  /** Whether it waits until a person releases it, whoever sends it. */
  readonly isDraft?: boolean | undefined
  readonly extra: DraftExtra
}

/** Rarely set fields, one JSON column. */
export interface DraftExtra {
  readonly reply_to?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly tags?: readonly string[]
  readonly idempotency_key?: string
  readonly template_data?: unknown
  /** Seconds after which an open recipient expires, from acceptance or `scheduled_at`. */
  readonly expires_in?: number
  /** Message-ID that the client of submitted mail set, with angle brackets. */
  readonly message_id?: string
  /** Date that the client of submitted mail set, in ms since the epoch. */
  readonly date?: number
  /** Mailboxes of submitted mail that its To names, but that get it from somebody else. */
  readonly also_to?: readonly string[]
  /** The same for Cc. */
  readonly also_cc?: readonly string[]
  /** Public id of the email that this one repeats. */
  readonly resend_of?: string
  /** In a broadcast: the contact as it was in the snapshot of the recipients. */
  readonly contact?: BroadcastContact
  /** System mail, such as a password reset link: the sending account must not read it. */
  readonly of_service?: true
  /** In system mail: row ids of the accounts that the mail is about. Its content is deleted with the last of them. */
  readonly about?: readonly number[]
  /** The type of a report (RFC 6522), which the mail is. */
  readonly report_type?: string
  /**
   * The first attachment is the whole message, which is sent as it is below our signature: forwarded mail. Its return
   * path is null if that of the message was (RFC 5321 §4.5.5).
   */
  readonly whole?: 'own_return_path' | 'null_return_path'
}

/** Undefined: the account's default. */
export interface TrackingChoice {
  readonly opens?: boolean | undefined
  readonly clicks?: boolean | undefined
}

export type TrackedParts = Readonly<Record<'opens' | 'clicks', boolean>>
export const NOT_TRACKED: TrackedParts = { opens: false, clicks: false }

/** `opens,clicks`. The position is the stored code: only append. The first two are those of a flag for both. */
const CODES = 'false,false true,true true,false false,true true, false, ,true ,false'.split(' ')

/** The stored code; null: no choice. */
export function toTrackingCode({ opens, clicks }: TrackingChoice = {}): number | null {
  const code = CODES.indexOf(`${opens ?? ''},${clicks ?? ''}`)
  return code === -1 ? null : code
}

export function toTrackingChoice(code: number): TrackingChoice {
  const [opens, clicks] = (CODES[code] ?? ',').split(',').map((part) => (part === '' ? undefined : part === 'true'))
  return { opens, clicks }
}

export interface Idempotency {
  readonly key: string
  /** First 16 bytes of the key's SHA-256. */
  readonly keyHash: Uint8Array
  /** Equal for equivalent requests. */
  readonly bodyHash: Uint8Array
}

const MAX_KEY_LENGTH = 256

/** Hash under which a key is stored; throws a 422 on `field` if the key is too short or too long. */
export function hashIdempotencyKey(field: string, key: string): Uint8Array {
  if (key.length === 0 || key.length > MAX_KEY_LENGTH)
    throw invalid(field, `An idempotency key must have 1 to ${MAX_KEY_LENGTH} characters.`)
  return sha256(key).slice(0, 16)
}

/**
 * The Message-ID of an email, with angle brackets (RFC 5322 §3.6.4): derived from its id, unless its client set one.
 * @param ofClient `message_id` in the email's `extra`
 */
export const messageIdOf = (uuid: Uint8Array, from: string, ofClient?: string | null): string =>
  ofClient ?? `<${formatUuid(uuid)}@${domainOfMailbox(from)}>`

const sql = prepareStatements((db) => ({
  logFields: db.prepare<{ uuid: Uint8Array; accountUuid: Uint8Array }, [number]>(
    'SELECT emails.uuid, accounts.uuid AS accountUuid FROM emails JOIN accounts ON accounts.id = account_id WHERE emails.id = ?',
  ),
  ofEvent: db.prepare<{ emailId: number | null }, [number]>('SELECT email_id AS emailId FROM events WHERE seq = ?'),
  ofRecipient: db.prepare<{ id: number; uuid: UuidBytes }, [number]>(
    'SELECT emails.id, uuid FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?',
  ),
}))

/** What names an email in a log line, as public ids. Null: it does not exist. */
export interface EmailLogFields {
  readonly email_id: string | null
  readonly account: string | null
}

/** Never throws: logging a database error must not fail with the same error. */
export function findEmailLogFields(db: Database, emailId: number): EmailLogFields {
  const found = attempt(() => sql(db).logFields.get(emailId))
  return found
    ? { email_id: formatUuid(found.uuid), account: formatUuid(found.accountUuid) }
    : { email_id: null, account: null }
}

/** The same, with the recipient of an attempt. Never throws. */
export const findAttemptLogFields = (
  db: Database,
  { emailId, recipientId }: { readonly emailId: number; readonly recipientId: number },
) => ({ ...findEmailLogFields(db, emailId), recipient: recipientId })

/** The same for the email of a recipient. Never throws. */
export function findRecipientLogFields(db: Database, recipientId: number): EmailLogFields {
  const email = attempt(() => sql(db).ofRecipient.get(recipientId))
  return email ? findEmailLogFields(db, email.id) : { email_id: null, account: null }
}

/** The same for the email of an event; empty if the event has none. Never throws. */
export function findEventLogFields(db: Database, seq: number | null): EmailLogFields | undefined {
  const emailId = attempt(() => (seq === null ? undefined : sql(db).ofEvent.get(seq)?.emailId))
  return emailId == null ? undefined : findEmailLogFields(db, emailId)
}

/** Stands for a recipient that was lost; no row has this id. */
export const LOST_RECIPIENT = 0

/** The recipient in a VERP address, even if it is gone; LOST_RECIPIENT if another one has its row id now. */
export function findVerpRecipient(db: Database, { recipientId, tag }: VerpRecipient): number {
  const email = sql(db).ofRecipient.get(recipientId)
  return email && computeVerpTag(email.uuid) !== tag ? LOST_RECIPIENT : recipientId
}
