/**
 * @module Which recipient of ours a feedback report is about. The MAC of an address of ours proves it; else a Message-ID of ours, which is known only
 * where the email went, tells the email. Whom the report names is believed of a feedback loop that is proven: each of several recipients knows the Message-ID
 * and the names of the others. Reads only.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findEmailByMessageId } from '#features/receiving/bounces/match.ts'
import { findVerpRecipient, LOST_RECIPIENT } from '#features/sending/queue/names.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { decodeUnsubscribeAddress, UNSUBSCRIBE_PATH } from '#features/sending/unsubscribe/headers.ts'
import { openUnsubscribeToken, type UnsubscribeFacts } from '#features/sending/unsubscribe/token.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { decodeVerp } from '#protocols/address/verp.ts'
import type { FeedbackReport } from '#protocols/arf/report.ts'

/** An email that a report is about. */
export interface ReportedEmail {
  readonly id: number
  readonly accountId: number
  readonly accountUuid: UuidBytes
  readonly streamId: number
  readonly sandbox: number
  readonly recipientCount: number
}

export interface ReportedRecipient {
  readonly id: number
  readonly emailId: number
  readonly address: string
  /** The stored code. */
  readonly status: number
}

export type ComplaintMatch =
  | { readonly kind: 'matched'; readonly email: ReportedEmail; readonly recipient: ReportedRecipient }
  /** It is about the email, but the report does not say which of these recipients complained. */
  | { readonly kind: 'email'; readonly email: ReportedEmail; readonly recipients: readonly ReportedRecipient[] }
  | { readonly kind: 'ignored'; readonly why: string }
  | { readonly kind: 'unmatched'; readonly why: string }

const SELECT_RECIPIENT = 'SELECT id, email_id AS emailId, address, status FROM recipients'

const sql = prepareStatements((db) => ({
  email: db.prepare<ReportedEmail, [number]>(
    `SELECT emails.id, account_id AS accountId, accounts.uuid AS accountUuid, stream_id AS streamId, sandbox,
     recipient_count AS recipientCount
     FROM emails JOIN accounts ON accounts.id = account_id WHERE emails.id = ?`,
  ),
  recipient: db.prepare<ReportedRecipient, [number]>(`${SELECT_RECIPIENT} WHERE id = ?`),
  recipients: db.prepare<ReportedRecipient, [number]>(`${SELECT_RECIPIENT} WHERE email_id = ? ORDER BY id`),
}))

/** Where a report came in. */
export interface ReportContext {
  /** Recipient whose return path it came to, by its MAC. */
  readonly recipientId?: number | undefined
  /** Account to whose domain it came: it may only touch emails of this account. */
  readonly accountId?: number | undefined
  /** Provider whose feedback loop is proven to have sent it. */
  readonly feedbackLoop?: string | undefined
}

/** What a report is about. Takes any report. */
export function matchFeedbackReport(
  { db, keys }: Pick<App, 'db' | 'keys'>,
  report: FeedbackReport,
  at: ReportContext,
): ComplaintMatch {
  const namedId = findEmailByMessageId(db, report.originalMessageId)?.id
  const returnedId = findProvenRecipient(db, keys, report)
  const recipientId = at.recipientId ?? returnedId
  if (recipientId === undefined) {
    const named = namedId === undefined ? undefined : sql(db).email.get(namedId)
    if (!named) return unmatched('It names no email of ours.')
    return isForeign(named, at)
      ? foreignEmail
      : matchNamedRecipient(db, named, at.feedbackLoop === undefined ? [] : report.originalRcptTo)
  }
  const recipient = sql(db).recipient.get(recipientId)
  const email = recipient && sql(db).email.get(recipient.emailId)
  if (!email) return unmatched('The recipient that its address names is no longer there.')
  if (isForeign(email, at)) return foreignEmail
  if ((namedId !== undefined && namedId !== email.id) || (returnedId !== undefined && returnedId !== recipientId))
    return { kind: 'ignored', why: 'Its address is of one message, the returned message is another one.' }
  return { kind: 'matched', email, recipient }
}

const isForeign = (email: ReportedEmail, { accountId }: ReportContext): boolean =>
  accountId !== undefined && accountId !== email.accountId

const unmatched = (why: string): ComplaintMatch => ({ kind: 'unmatched', why })
const foreignEmail = unmatched('It is about an email of another account.')

/** The recipient that the addresses and links of ours in a report prove; undefined when there is none, or when they prove several. */
function findProvenRecipient(db: Database, keys: App['keys'], report: FeedbackReport): number | undefined {
  const verpKey = keys.subkey('verp')
  const names = report.ownLocalParts.flatMap((local) => [
    decodeVerp(local, verpKey),
    decodeUnsubscribeAddress({ keys }, local),
  ])
  const links = findLinkTokens(report.originalListUnsubscribe).map((token) => openUnsubscribeToken(keys, token))
  const ids = [
    ...names.map((name) => name && findVerpRecipient(db, name)),
    ...links.map((facts) => facts && findRecipientOfLink(db, facts)),
  ].filter((id) => id !== undefined)
  const distinct = new Set(ids)
  return distinct.size === 1 ? ids[0] : undefined
}

/** A link says whom it was made for: after a restored backup its row may be somebody else's. */
function findRecipientOfLink(db: Database, { recipientId, emailId, address }: UnsubscribeFacts): number {
  const row = sql(db).recipient.get(recipientId)
  const isOtherRecipient =
    row && (row.emailId !== emailId || (row.address !== address && row.address !== ERASED_ADDRESS))
  return isOtherRecipient ? LOST_RECIPIENT : recipientId
}

const MAX_LINKS = 10
const TOKEN_IN_LINK = new RegExp(`${UNSUBSCRIBE_PATH}/([\\w-]{20,1000})`, 'g')

/** What may be our tokens in a List-Unsubscribe field. */
const findLinkTokens = (field: string | null): string[] =>
  Array.from((field ?? '').matchAll(TOKEN_IN_LINK), ([, token = '']) => token).slice(0, MAX_LINKS)

/** Forwarded mail is reported by somebody else than it was sent to, so the name does not matter when there is only one recipient. */
function matchNamedRecipient(db: Database, email: ReportedEmail, named: readonly string[]): ComplaintMatch {
  const recipients = sql(db).recipients.all(email.id)
  const namedKeys = new Set(named.map(normaliseAddress))
  const candidates =
    recipients.length === 1 ? recipients : recipients.filter(({ address }) => namedKeys.has(normaliseAddress(address)))
  const [recipient, ...others] = candidates
  return recipient && others.length === 0 ? { kind: 'matched', email, recipient } : { kind: 'email', email, recipients }
}

/** Statuses in which a message may lie in somebody's mailbox. */
const POSSIBLY_DELIVERED: ReadonlySet<Status> = new Set<Status>(['processing', 'sent', 'bounced', 'uncertain'])

/** Whether somebody can have got the message. */
export const isPossiblyDelivered = ({ status }: ReportedRecipient): boolean =>
  POSSIBLY_DELIVERED.has(statusName(status))
