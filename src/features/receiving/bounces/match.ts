/**
 * @module Finds the recipient that a DSN is about. The MAC of a return path proves it. A Message-ID of ours cannot be
 * guessed and is known only to the email's recipients, so it suffices when there is one recipient. One that the client
 * chose may be guessed, so the report must name the recipient, too. Read-only.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findVerpRecipient, messageIdOf } from '#features/sending/queue/names.ts'
import { findByClientMessageId } from '#features/sending/queue/search.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { decodeVerp } from '#protocols/address/verp.ts'
import type { Dsn, DsnRecipient } from '#protocols/dsn/report.ts'

/** A recipient that a report may be about. */
export interface MatchedRecipient {
  readonly recipientId: number
  readonly emailId: number
  readonly accountId: number
  readonly address: string
  /** The stored code. */
  readonly status: number
  /** When transmission to the receiver began, if it has. */
  readonly startedAt: Millis | null
  readonly sandbox: number
}

export type BounceMatch =
  | { readonly kind: 'matched'; readonly recipient: MatchedRecipient; readonly reported: DsnRecipient }
  | { readonly kind: 'ignored'; readonly why: string }
  | { readonly kind: 'unmatched'; readonly why: string }

interface EmailRow {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly from: string
}

const SELECT_RECIPIENT = `SELECT recipients.id AS recipientId, email_id AS emailId, account_id AS accountId, address, recipients.status,
  delivery_started_at AS startedAt, sandbox
  FROM recipients JOIN emails ON emails.id = email_id`

const sql = prepareStatements((db) => ({
  recipient: db.prepare<MatchedRecipient, [number]>(`${SELECT_RECIPIENT} WHERE recipients.id = ?`),
  recipients: db.prepare<MatchedRecipient, [number]>(`${SELECT_RECIPIENT} WHERE email_id = ? ORDER BY recipients.id`),
  email: db.prepare<EmailRow, [UuidBytes]>(
    'SELECT id, uuid, account_id AS accountId, from_address AS "from" FROM emails WHERE uuid = ?',
  ),
}))

/**
 * @param at.recipientId proven by the MAC of the address that received the report
 * @param at.accountId only emails of this account may match
 */
export function matchDeliveryReport(
  { db, keys }: Pick<App, 'db' | 'keys'>,
  report: Dsn,
  at: { readonly recipientId?: number | undefined; readonly accountId?: number | undefined },
): BounceMatch {
  const returnedId = findRecipientByReturnPath(db, report.originalReturnPath, keys.subkeys('verp'))
  const provenId = at.recipientId ?? returnedId
  const email = findEmailByMessageId(db, report.originalMessageId)
  const isForeign = (accountId: number): boolean => at.accountId !== undefined && at.accountId !== accountId
  if (provenId !== undefined) {
    const recipient = sql(db).recipient.get(provenId)
    if (!recipient) return unmatched('The recipient that the return path names no longer exists.')
    if (isForeign(recipient.accountId)) return unmatched('The report is about an email of another account.')
    if (email && email.id !== recipient.emailId)
      return ignored('The return path belongs to one email, but the returned message is another email.')
    if (returnedId !== undefined && returnedId !== provenId)
      return ignored('The report came to the return path of one recipient, but returns the message of another.')
    return matchRecipient(recipient, report)
  }
  if (!email) return matchByClientMessageId(db, report, at.accountId)
  if (isForeign(email.accountId)) return unmatched('The report is about an email of another account.')
  const [only, ...others] = sql(db).recipients.all(email.id)
  if (!only) return unmatched('The recipient of the email no longer exists.')
  // Every recipient knows the Message-ID and the other recipients, so any of them could forge a report that contains
  // only these.
  return others.length === 0
    ? matchRecipient(only, report)
    : unmatched('The email has several recipients, and nothing proves which one the report is about.')
}

/**
 * Finds the recipient by the Message-ID that a client chose, at an address of its account: a client may choose any, and
 * that of another account.
 */
function matchByClientMessageId(db: Database, report: Dsn, accountId: number | undefined): BounceMatch {
  const { originalMessageId: messageId } = report
  const ids = accountId && messageId !== null ? findByClientMessageId(db, accountId, messageId, 2) : []
  const [emailId, ...otherIds] = ids
  if (emailId === undefined) return unmatched('The report names no email of this service.')
  if (otherIds.length > 0) return unmatched('Several emails have the Message-ID that the report names.')
  const [only, ...others] = sql(db).recipients.all(emailId)
  if (!only || others.length > 0 || !report.recipients.some((reported) => isNamed(only, reported)))
    return unmatched('Nothing proves which recipient of the email the report is about.')
  return matchRecipient(only, report)
}

/** The reported address need not match ours: forwarded mail fails at another address. */
function matchRecipient(recipient: MatchedRecipient, report: Dsn): BounceMatch {
  const named = report.recipients.filter((reported) => isNamed(recipient, reported))
  const candidates = named.length > 0 ? named : report.recipients
  const [reported] = candidates
  if (!reported) return ignored('The report names no recipient.')
  if (candidates.some(({ action }) => action !== reported.action))
    return ignored('The report states different outcomes for several addresses, none of which we sent to.')
  return { kind: 'matched', recipient, reported }
}

function isNamed({ address }: MatchedRecipient, { finalRecipient, originalRecipient }: DsnRecipient): boolean {
  const key = normaliseAddress(address)
  return [originalRecipient, finalRecipient].some((name) => name !== null && normaliseAddress(name) === key)
}

function findRecipientByReturnPath(
  db: Database,
  address: string | null,
  verpKeys: readonly Uint8Array[],
): number | undefined {
  if (address === null) return undefined
  const at = address.lastIndexOf('@')
  const name = decodeVerp(at === -1 ? address : address.slice(0, at), verpKeys)
  return name && findVerpRecipient(db, name)
}

const MESSAGE_ID = /^<([0-9a-f-]{36})@[^<>@\s]{1,255}>$/i

/** The email with this Message-ID; the domain must match too. */
export function findEmailByMessageId(db: Database, messageId: string | null): EmailRow | undefined {
  const uuid = parseUuid(MESSAGE_ID.exec(messageId ?? '')?.[1] ?? '')
  const email = uuid && sql(db).email.get(uuid)
  return email && messageIdOf(email.uuid, email.from).toLowerCase() === messageId?.toLowerCase() ? email : undefined
}

const ignored = (why: string): BounceMatch => ({ kind: 'ignored', why })
const unmatched = (why: string): BounceMatch => ({ kind: 'unmatched', why })
