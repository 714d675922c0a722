/**
 * @module Requests to unsubscribe that come by mail (RFC 2369 §3.2): to the address of one recipient, with the token of List-Unsubscribe in the subject.
 * Who sends it does not matter, since mail is forwarded and the address proves that its sender has the message; neither does what it says.
 */
import type { App } from '#features/core/app/app.ts'
import { LOST_RECIPIENT } from '#features/sending/queue/names.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { readUnsubscribeFacts } from './headers.ts'
import { MAX_TOKEN_LENGTH, openUnsubscribeToken, type UnsubscribeFacts } from './token.ts'
import { unsubscribeInTransaction } from './unsubscribe.ts'

/** What became of a request. `why` is a sentence. */
export type MailRequestResult =
  | { readonly kind: 'unsubscribed'; readonly isNew: boolean }
  | { readonly kind: 'ignored'; readonly why: string }

/** A message to an address for unsubscribing, as far as it counts. */
export interface MailRequest {
  /** By the MAC in the address; LOST_RECIPIENT: its row is another one by now. */
  readonly recipientId: number
  readonly subject: string
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  /** Decoded. */
  readonly headers: readonly (readonly [name: string, value: string])[]
}

const sql = prepareStatements((db) => ({
  mail: db.prepare<{ emailId: number; address: string; from: string }, [number]>(
    `SELECT email_id AS emailId, address, from_address AS "from" FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?`,
  ),
}))

/**
 * Unsubscribes whom a message asks for, in the caller's transaction, with the event and the audit row of the page. To ask again changes nothing. Never
 * throws for what is in the message.
 */
export function unsubscribeByMail(app: App, tx: Tx, request: MailRequest): MailRequestResult {
  if (isAutomaticReply(request)) return createIgnored('It is an automatic answer or a report, which asks for nothing.')
  const facts = readFactsFromSubject(app, request.subject) ?? readFactsOfRecipient(tx, request.recipientId)
  if (!facts)
    return createIgnored('Its email or the address of its recipient is gone, and no token stands in the subject.')
  if (request.recipientId !== LOST_RECIPIENT && facts.recipientId !== request.recipientId)
    return createIgnored('The address is of one recipient, the token in the subject of another one.')
  const isNew = unsubscribeInTransaction(app, tx, facts, 'mailto')
  return isNew === undefined ? createIgnored('The account of the email is gone.') : { kind: 'unsubscribed', isNew }
}

const createIgnored = (why: string): MailRequestResult => ({ kind: 'ignored', why })

/**
 * Whether a program sent it in reply to something: bounces and other reports (RFC 3464, RFC 8098) and answers of absence (RFC 3834 §5). Not whatever a
 * program made: mail programs write such requests by themselves, when somebody presses a button.
 */
function isAutomaticReply({ mailFrom, headers }: MailRequest): boolean {
  if (mailFrom === '') return true
  return headers.some(([name, value]) => {
    if (/^auto-submitted$/i.test(name)) return /^\s*auto-(?:replied|notified)\b/i.test(value)
    return /^content-type$/i.test(name) && /^\s*multipart\/report\b/i.test(value)
  })
}

/** Words that are tried: a mail program may have put some before the token. */
const MAX_WORDS = 10

/** What the token in a subject says. A long subject may come back with spaces where it was folded. */
function readFactsFromSubject({ keys }: App, subject: string): UnsubscribeFacts | undefined {
  const start = subject.slice(0, 2 * MAX_TOKEN_LENGTH)
  const candidates = [...start.split(/\s+/).slice(0, MAX_WORDS), start.replace(/\s+/g, '')]
  for (const candidate of candidates) {
    const facts = openUnsubscribeToken(keys, candidate)
    if (facts) return facts
  }
  return undefined
}

/** What the token would say, when the mail program has left the subject out: of the rows, while they are there. */
function readFactsOfRecipient({ db }: Tx, recipientId: number): UnsubscribeFacts | undefined {
  const mail = sql(db).mail.get(recipientId)
  // Of somebody who was erased nobody knows any more what to stop.
  return mail && mail.address !== ERASED_ADDRESS ? readUnsubscribeFacts(db, { ...mail, recipientId }) : undefined
}
