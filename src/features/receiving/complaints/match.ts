/**
 * @module Which recipient of ours a feedback report is about. The MAC of an address of ours proves it; else a Message-ID of ours, which is known only
 * where the email went, tells the email. Whom the report names is believed of a feedback loop that is proven: each of several recipients knows the Message-ID
 * and the names of the others. Reads only.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { emailOfMessageId } from '#features/receiving/bounces/match.ts'
import { LOST_RECIPIENT, recipientOfVerp } from '#features/sending/queue/names.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { decodeUnsubscribeAddress, UNSUBSCRIBE_PATH } from '#features/sending/unsubscribe/headers.ts'
import { openToken, type UnsubscribeFacts } from '#features/sending/unsubscribe/token.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/listed-form.ts'
import { prepared } from '#platform/db/open.ts'
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

export type Matched =
  | { readonly kind: 'matched'; readonly email: ReportedEmail; readonly recipient: ReportedRecipient }
  /** It is about the email, but the report does not say which of these recipients complained. */
  | { readonly kind: 'email'; readonly email: ReportedEmail; readonly recipients: readonly ReportedRecipient[] }
  | { readonly kind: 'ignored'; readonly why: string }
  | { readonly kind: 'unmatched'; readonly why: string }

const RECIPIENT = 'SELECT id, email_id AS emailId, address, status FROM recipients'

const sql = prepared((db) => ({
  email: db.prepare<ReportedEmail, [number]>(
    `SELECT emails.id, account_id AS accountId, accounts.uuid AS accountUuid, stream_id AS streamId, sandbox,
     recipient_count AS recipientCount
     FROM emails JOIN accounts ON accounts.id = account_id WHERE emails.id = ?`,
  ),
  recipient: db.prepare<ReportedRecipient, [number]>(`${RECIPIENT} WHERE id = ?`),
  recipients: db.prepare<ReportedRecipient, [number]>(`${RECIPIENT} WHERE email_id = ? ORDER BY id`),
}))

/** Where a report came in. */
export interface ReportPlace {
  /** Recipient whose return path it came to, by its MAC. */
  readonly recipientId?: number | undefined
  /** Account to whose domain it came: it may only touch emails of this account. */
  readonly accountId?: number | undefined
  /** Provider whose feedback loop is proven to have sent it. */
  readonly feedbackLoop?: string | undefined
}

/** What a report is about. Takes any report. */
export function matchReport({ db, keys }: Pick<App, 'db' | 'keys'>, report: FeedbackReport, at: ReportPlace): Matched {
  const namedId = emailOfMessageId(db, report.originalMessageId)?.id
  const returned = provenRecipient(db, keys, report)
  const recipientId = at.recipientId ?? returned
  if (recipientId === undefined) {
    const named = namedId === undefined ? undefined : sql(db).email.get(namedId)
    if (!named) return unmatched('It names no email of ours.')
    return isForeign(named, at)
      ? foreign
      : recipientOf(db, named, at.feedbackLoop === undefined ? [] : report.originalRcptTo)
  }
  const recipient = sql(db).recipient.get(recipientId)
  const email = recipient && sql(db).email.get(recipient.emailId)
  if (!email) return unmatched('The recipient that its address names is no longer there.')
  if (isForeign(email, at)) return foreign
  if ((namedId !== undefined && namedId !== email.id) || (returned !== undefined && returned !== recipientId))
    return { kind: 'ignored', why: 'Its address is of one message, the returned message is another one.' }
  return { kind: 'matched', email, recipient }
}

const isForeign = (email: ReportedEmail, { accountId }: ReportPlace): boolean =>
  accountId !== undefined && accountId !== email.accountId

const unmatched = (why: string): Matched => ({ kind: 'unmatched', why })
const foreign = unmatched('It is about an email of another account.')

/** The recipient that the addresses and links of ours in a report prove; undefined when there is none, or when they prove several. */
function provenRecipient(db: Database, keys: App['keys'], report: FeedbackReport): number | undefined {
  const verpKey = keys.subkey('verp')
  const names = report.ownLocalParts.flatMap((local) => [
    decodeVerp(local, verpKey),
    decodeUnsubscribeAddress({ keys }, local),
  ])
  const links = linksIn(report.originalListUnsubscribe).map((token) => openToken(keys, token))
  const ids = [
    ...names.map((name) => name && recipientOfVerp(db, name)),
    ...links.map((facts) => facts && recipientOfLink(db, facts)),
  ].filter((id) => id !== undefined)
  const distinct = new Set(ids)
  return distinct.size === 1 ? ids[0] : undefined
}

/** A link says whom it was made for: after a restored backup its row may be somebody else's. */
function recipientOfLink(db: Database, { recipientId, emailId, address }: UnsubscribeFacts): number {
  const row = sql(db).recipient.get(recipientId)
  const isAnother = row && (row.emailId !== emailId || (row.address !== address && row.address !== ERASED_ADDRESS))
  return isAnother ? LOST_RECIPIENT : recipientId
}

const MOST_LINKS = 10
const TOKEN_IN_LINK = new RegExp(`${UNSUBSCRIBE_PATH}/([\\w-]{20,1000})`, 'g')

/** What may be our tokens in a List-Unsubscribe field. */
const linksIn = (field: string | null): string[] =>
  Array.from((field ?? '').matchAll(TOKEN_IN_LINK), ([, token = '']) => token).slice(0, MOST_LINKS)

/** Forwarded mail is reported by somebody else than it was sent to, so the name does not matter when there is only one recipient. */
function recipientOf(db: Database, email: ReportedEmail, named: readonly string[]): Matched {
  const recipients = sql(db).recipients.all(email.id)
  const told = new Set(named.map(normaliseAddress))
  const found =
    recipients.length === 1 ? recipients : recipients.filter(({ address }) => told.has(normaliseAddress(address)))
  const [recipient, ...others] = found
  return recipient && others.length === 0 ? { kind: 'matched', email, recipient } : { kind: 'email', email, recipients }
}

/** Statuses in which a message may lie in somebody's mailbox. */
const MAY_HAVE_ARRIVED: ReadonlySet<Status> = new Set<Status>(['processing', 'sent', 'bounced', 'uncertain'])

/** Whether somebody can have got the message. */
export const mayHaveArrived = ({ status }: ReportedRecipient): boolean => MAY_HAVE_ARRIVED.has(statusName(status))
