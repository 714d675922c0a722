/**
 * @module Records submissions of signup forms: how much mail they caused for one mailbox, and whether an address was
 * submitted before. Stores no address, only digests. Sends nothing.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { hmacSha256 } from '#platform/crypto/crypto.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { days, hours, type Millis } from '#platform/units.ts'
import { toMailboxKey } from '#protocols/address/parse.ts'

/** An address, for an account. */
export interface Person {
  readonly accountId: number
  /** As `normaliseAddress` returns it. */
  readonly addressKey: string
}

/** An address submitted to a form of a list. */
export interface Submission extends Person {
  /** Row id. */
  readonly listId: number
}

interface MailLimit {
  readonly withinMs: number
  readonly count: number
}

/** Confirmations and welcomes that the forms of one account cause for one mailbox: fewer per day in the long run. */
const ACCOUNT_MAIL_LIMITS: readonly MailLimit[] = [
  { withinMs: days(1), count: 10 },
  { withinMs: days(7), count: 20 },
  { withinMs: days(30), count: 30 },
]
/** Of the forms of all accounts together: otherwise many accounts could flood a mailbox. */
const SHARED_MAIL_LIMITS: readonly MailLimit[] = [
  { withinMs: hours(1), count: 10 },
  { withinMs: days(1), count: 20 },
  { withinMs: days(30), count: 100 },
]
/** How long submissions are stored, as `tables.ts` states it. */
export const SUBMISSION_RETENTION_MS = days(30)
const DIGEST_BYTES = 16

const sql = prepareStatements((db) => ({
  mailsOfAccount: db.prepare<{ at: Millis }, [Uint8Array, Millis]>(
    'SELECT asked_at AS at FROM form_asks WHERE mailbox = ? AND asked_at > ?',
  ),
  mailsOfAll: db.prepare<{ at: Millis }, [Uint8Array, Millis]>(
    'SELECT asked_at AS at FROM form_asks WHERE shared_mailbox = ? AND asked_at > ?',
  ),
  entered: db.prepare<{ id: number }, [Uint8Array, Millis]>(
    'SELECT id FROM form_asks WHERE contact = ? AND asked_at > ? LIMIT 1',
  ),
  insert: db.prepare('INSERT INTO form_asks (mailbox, shared_mailbox, contact, asked_at) VALUES (?, ?, ?, ?)'),
  removeUnsent: db.prepare('DELETE FROM form_asks WHERE contact = ? AND mailbox IS NULL'),
  eraseContact: db.prepare('DELETE FROM form_asks WHERE contact = ?'),
  eraseMailbox: db.prepare('DELETE FROM form_asks WHERE mailbox = ?'),
}))

const digest = ({ keys }: Pick<App, 'keys'>, text: string): Uint8Array =>
  hmacSha256(keys.subkey('form-asks'), text).slice(0, DIGEST_BYTES)

const digestMailbox = (app: Pick<App, 'keys'>, { accountId, addressKey }: Person): Uint8Array =>
  digest(app, `mailbox ${accountId} ${toMailboxKey(addressKey)}`)

const digestSharedMailbox = (app: Pick<App, 'keys'>, { addressKey }: Person): Uint8Array =>
  digest(app, `mailbox of all ${toMailboxKey(addressKey)}`)

const digestContact = (app: Pick<App, 'keys'>, { listId, addressKey }: Submission): Uint8Array =>
  digest(app, `contact ${listId} ${addressKey}`)

/** Whether the forms of this account, or of all, may cause no more mail for a mailbox at an event time. */
export function isMailLimitReached(app: Pick<App, 'keys'>, db: Database, submission: Submission, now: Millis): boolean {
  const { mailsOfAccount, mailsOfAll } = sql(db)
  const since = now - SUBMISSION_RETENTION_MS
  return (
    isAnyLimitReached(ACCOUNT_MAIL_LIMITS, mailsOfAccount.all(digestMailbox(app, submission), since), now) ||
    isAnyLimitReached(SHARED_MAIL_LIMITS, mailsOfAll.all(digestSharedMailbox(app, submission), since), now)
  )
}

const isAnyLimitReached = (
  limits: readonly MailLimit[],
  mails: readonly { readonly at: Millis }[],
  now: Millis,
): boolean => limits.some(({ withinMs, count }) => mails.filter(({ at }) => at > now - withinMs).length >= count)

/**
 * Whether the address was submitted to this list recently; then the visitor gets the same response as for a pending
 * contact.
 * @param now event time
 */
export const wasSubmitted = (app: Pick<App, 'keys'>, db: Database, submission: Submission, now: Millis): boolean =>
  sql(db).entered.get(digestContact(app, submission), now - SUBMISSION_RETENTION_MS) !== null

/** Records that an address was submitted, and whether that caused an email. */
export function recordSubmission(
  app: Pick<App, 'keys' | 'eventTime'>,
  tx: Tx,
  submission: Submission,
  { isSent }: { readonly isSent: boolean },
): void {
  const { removeUnsent, insert } = sql(tx.db)
  const now = app.eventTime()
  const contact = digestContact(app, submission)
  if (!isSent) removeUnsent.run(contact)
  if (isSent) insert.run(digestMailbox(app, submission), digestSharedMailbox(app, submission), contact, now)
  else insert.run(null, null, contact, now)
}

/** Deletes the submissions of an address to a list. Returns the number of rows. */
export const eraseSubmissions = (app: Pick<App, 'keys'>, tx: Tx, submission: Submission): number =>
  sql(tx.db).eraseContact.run(digestContact(app, submission)).changes

/** Deletes the count of mail for the mailbox of an address, in all its spellings. */
export const eraseMailboxSubmissions = (app: Pick<App, 'keys'>, tx: Tx, person: Person): number =>
  sql(tx.db).eraseMailbox.run(digestMailbox(app, person)).changes
