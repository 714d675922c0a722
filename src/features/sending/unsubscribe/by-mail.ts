/**
 * @module Handles unsubscribe requests by mail (RFC 2369 §3.2): sent to the address of one recipient, with the token of
 * List-Unsubscribe in the subject. Neither the sender nor the body matters: mail may be forwarded, and the address
 * proves that the sender has the message.
 */
import type { App } from '#features/core/app/app.ts'
import { LOST_RECIPIENT } from '#features/sending/queue/email.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { MAX_TOKEN_LENGTH, openUnsubscribeToken, readUnsubscribeFacts, type UnsubscribeFacts } from './headers.ts'
import { unsubscribeInTransaction } from './unsubscribe.ts'

/** The result of a request. `why` is a sentence. */
export type MailRequestResult =
  | { readonly kind: 'unsubscribed'; readonly isNew: boolean }
  | { readonly kind: 'ignored'; readonly why: string }

/** The relevant parts of a message to an unsubscribe address. */
export interface MailRequest {
  /** From the authenticated address; LOST_RECIPIENT if the row id now belongs to another recipient. */
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
 * Unsubscribes the recipient of a request, in the caller's transaction, with the same event and audit row as the page.
 * Repeating it changes nothing. Never throws because of the content of the message.
 */
export function unsubscribeByMail(app: App, tx: Tx, request: MailRequest): MailRequestResult {
  if (isAutomaticReply(request)) return createIgnored('It is an automatic reply or a report.')
  const facts = readFactsFromSubject(app, request.subject) ?? readFactsOfRecipient(tx, request.recipientId)
  if (!facts) return createIgnored('Its email or recipient was deleted, and the subject has no token.')
  if (request.recipientId !== LOST_RECIPIENT && facts.recipientId !== request.recipientId)
    return createIgnored('The address and the token in the subject belong to different recipients.')
  const isNew = unsubscribeInTransaction(app, tx, facts, 'mailto')
  return isNew === undefined ? createIgnored('The account of the email was deleted.') : { kind: 'unsubscribed', isNew }
}

const createIgnored = (why: string): MailRequestResult => ({ kind: 'ignored', why })

/**
 * Whether the message is an automatic reply: a bounce or other report (RFC 3464, RFC 8098), or an out-of-office reply
 * (RFC 3834 §5). Other automatic mail counts as a request: mail programs send unsubscribe requests automatically when
 * the user clicks a button.
 */
function isAutomaticReply({ mailFrom, headers }: MailRequest): boolean {
  if (mailFrom === '') return true
  return headers.some(([name, value]) => {
    if (/^auto-submitted$/i.test(name)) return /^\s*auto-(?:replied|notified)\b/i.test(value)
    return /^content-type$/i.test(name) && /^\s*multipart\/report\b/i.test(value)
  })
}

/** Maximum number of words of the subject that are tried: a mail program may put some words before the token. */
const MAX_WORDS = 10

/** Reads the token in a subject. A long subject may arrive with spaces where it was folded. */
function readFactsFromSubject({ keys }: App, subject: string): UnsubscribeFacts | undefined {
  const start = subject.slice(0, 2 * MAX_TOKEN_LENGTH)
  const candidates = [...start.split(/\s+/).slice(0, MAX_WORDS), start.replace(/\s+/g, '')]
  for (const candidate of candidates) {
    const facts = openUnsubscribeToken(keys, candidate)
    if (facts) return facts
  }
  return undefined
}

/** Used when the mail program omitted the subject: reads the data of a token from the rows, if they exist. */
function readFactsOfRecipient({ db }: Tx, recipientId: number): UnsubscribeFacts | undefined {
  const mail = sql(db).mail.get(recipientId)
  // For an erased recipient, the rows no longer say what to unsubscribe.
  return mail && mail.address !== ERASED_ADDRESS ? readUnsubscribeFacts(db, { ...mail, recipientId }) : undefined
}
