/**
 * @module Finds the recipient that a feedback report is about, and the provider whose feedback loop sent it, proven by
 * SPF or DKIM. The MAC of one of our addresses proves the recipient; otherwise a Message-ID, which only the email's
 * recipients know, identifies the email. A recipient named in the report is believed only from a proven feedback loop,
 * because every recipient knows the Message-ID and the other recipients. Read-only.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findEmailByMessageId, type ReportContext } from '#features/receiving/bounces/apply.ts'
import type { ReceivedMail } from '#features/receiving/received/message.ts'
import { findVerpRecipient, LOST_RECIPIENT } from '#features/sending/queue/email.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import type { emails, recipients } from '#features/sending/queue/tables.ts'
import {
  decodeUnsubscribeAddress,
  openUnsubscribeToken,
  UNSUBSCRIBE_PATH,
  type UnsubscribeFacts,
} from '#features/sending/unsubscribe/headers.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { decodeVerp } from '#protocols/address/verp.ts'
import type { FeedbackReport } from '#protocols/arf/parse.ts'

import data from './feedback-loops.json' with { type: 'json' }

/**
 * Providers by the senders of their feedback loops. Each sender is a whole address, because some of the domains also
 * host mailboxes for the public, whose mail passes SPF and DKIM too.
 */
const PROVIDERS_BY_SENDER = new Map(
  Object.entries(data.senders).flatMap(([provider, senders]) => senders.map((sender) => [sender, provider] as const)),
)

/** The provider whose feedback loop sent a message, proven by SPF or an aligned DKIM signature. */
export function findFeedbackLoop(
  { feedbackLoops }: Pick<Config, 'feedbackLoops'>,
  { envelope, message, authentication }: Pick<ReceivedMail, 'envelope' | 'message' | 'authentication'>,
): string | undefined {
  const { spf, dkim } = authentication.details
  const provenAddresses: string[] = []
  if (spf.result === 'pass' && spf.identity === 'mailfrom') provenAddresses.push(envelope.mailFrom)
  const [from, ...others] = message.fromAddresses
  if (from !== undefined && others.length === 0 && dkim.some(({ result, aligned }) => result === 'pass' && aligned))
    provenAddresses.push(from)
  return provenAddresses
    .map((address) => findProvider(feedbackLoops, address.toLowerCase()))
    .find((provider) => provider !== undefined)
}

function findProvider(extraEntries: readonly string[], address: string): string | undefined {
  const known = PROVIDERS_BY_SENDER.get(address)
  if (known !== undefined) return known
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return extraEntries.find((entry) => entry === address || entry === domain)
}

export interface ReportedEmail
  extends Readonly<Pick<typeof emails.$inferSelect, 'id' | 'accountId' | 'streamId' | 'recipientCount'>> {
  readonly accountUuid: UuidBytes
  readonly sandbox: number
}

export type ReportedRecipient = Readonly<Pick<typeof recipients.$inferSelect, 'id' | 'emailId' | 'address' | 'status'>>

export type ComplaintMatch =
  | { readonly kind: 'matched'; readonly email: ReportedEmail; readonly recipient: ReportedRecipient }
  /** The email is known, but not which of these recipients complained. */
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

/** Where and when a report arrived. */
export interface ReportOrigin extends ReportContext {
  /** Provider whose feedback loop provably sent it. */
  readonly feedbackLoop?: string | undefined
  readonly rawRef: number
}

/** Finds what a report is about. Accepts any report. */
export function matchFeedbackReport(
  { db, keys }: Pick<App, 'db' | 'keys'>,
  report: FeedbackReport,
  at: ReportOrigin,
): ComplaintMatch {
  const namedId = findEmailByMessageId(db, report.originalMessageId)?.id
  const returnedId = findProvenRecipient(db, keys, report)
  const recipientId = at.recipientId ?? returnedId
  if (recipientId === undefined) {
    const named = namedId === undefined ? undefined : sql(db).email.get(namedId)
    if (!named) return unmatched('The report names no email of this service.')
    return isForeign(named, at)
      ? foreignEmail
      : matchNamedRecipient(db, named, at.feedbackLoop === undefined ? [] : report.originalRcptTo)
  }
  const recipient = sql(db).recipient.get(recipientId)
  const email = recipient && sql(db).email.get(recipient.emailId)
  if (!email) return unmatched('The recipient that the address names no longer exists.')
  if (isForeign(email, at)) return foreignEmail
  if ((namedId !== undefined && namedId !== email.id) || (returnedId !== undefined && returnedId !== recipientId))
    return { kind: 'ignored', why: 'The address belongs to one email, but the returned message is another email.' }
  return { kind: 'matched', email, recipient }
}

const isForeign = (email: ReportedEmail, { accountId }: ReportOrigin): boolean =>
  accountId !== undefined && accountId !== email.accountId

const unmatched = (why: string): ComplaintMatch => ({ kind: 'unmatched', why })
const foreignEmail = unmatched('The report is about an email of another account.')

/** The recipient that our addresses and links in a report prove; undefined: none, or several. */
function findProvenRecipient(db: Database, keys: App['keys'], report: FeedbackReport): number | undefined {
  const verpKeys = keys.subkeys('verp')
  const names = report.ownLocalParts.flatMap((local) => [
    decodeVerp(local, verpKeys),
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

/** The recipient that a link names, or LOST_RECIPIENT if another has its row, as after a restored backup. */
function findRecipientOfLink(db: Database, { recipientId, emailId, address }: UnsubscribeFacts): number {
  const row = sql(db).recipient.get(recipientId)
  const isOtherRecipient =
    row && (row.emailId !== emailId || (row.address !== address && row.address !== ERASED_ADDRESS))
  return isOtherRecipient ? LOST_RECIPIENT : recipientId
}

const MAX_LINKS = 10
const TOKEN_IN_LINK = new RegExp(`${UNSUBSCRIBE_PATH}/([\\w-]{20,1000})`, 'g')

/** Possible unsubscribe tokens of ours in a List-Unsubscribe field. */
const findLinkTokens = (field: string | null): string[] =>
  Array.from((field ?? '').matchAll(TOKEN_IN_LINK), ([, token = '']) => token).slice(0, MAX_LINKS)

/** With a single recipient the name does not matter: forwarded mail is reported under another address. */
function matchNamedRecipient(db: Database, email: ReportedEmail, named: readonly string[]): ComplaintMatch {
  const recipients = sql(db).recipients.all(email.id)
  const namedKeys = new Set(named.map(normaliseAddress))
  const candidates =
    recipients.length === 1 ? recipients : recipients.filter(({ address }) => namedKeys.has(normaliseAddress(address)))
  const [recipient, ...others] = candidates
  return recipient && others.length === 0 ? { kind: 'matched', email, recipient } : { kind: 'email', email, recipients }
}

/** Statuses in which the message may have reached a mailbox. */
const POSSIBLY_DELIVERED: ReadonlySet<Status> = new Set<Status>(['processing', 'sent', 'bounced', 'uncertain'])

/** Whether the recipient may have received the message. */
export const isPossiblyDelivered = ({ status }: ReportedRecipient): boolean =>
  POSSIBLY_DELIVERED.has(statusName(status))
