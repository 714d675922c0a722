/**
 * @module Schedules subscription mail, which is confirmation requests and welcomes, in the transaction that causes it, and
 * limits how often a contact gets a confirmation request. Sends nothing: see subscription-notices.ts.
 */
import type { Database } from 'bun:sqlite'
import { enterOfList } from '#features/audience/sequences/sequences.ts'
import type { App } from '#features/core/app/app.ts'
import { cancelNotice, findNotice, type Notice, scheduleNotice } from '#features/core/notices/notices.ts'
import type { Contact } from '#features/setup/contact-store/find.ts'
import type { ContactList } from '#features/setup/contact-store/lists.ts'
import { readEarlierRequests, requestConfirmation } from '#features/setup/contact-store/status.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { days, hours, type Millis, seconds } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'

/** Kinds of notices to contacts, whose topic is the contact; bulk confirmations have a rate of their own. */
export const SUBSCRIPTION_MAIL_KINDS = ['confirmation', 'welcome', 'bulk_confirmation'] as const
export type SubscriptionMailKind = (typeof SUBSCRIPTION_MAIL_KINDS)[number]

/** Data of a confirmation request. */
export interface ConfirmationData {
  /** Sender in header form; absent: no-reply at the first verified domain. */
  readonly from?: string | undefined
  /** Language of the visitor who submitted a form; absent: nobody did. */
  readonly language?: string | undefined
}

/** Limits per contact, whoever requests: nobody may fill another person's mailbox. */
export const MIN_CONFIRMATION_INTERVAL_MS = hours(1)
export const MAX_CONFIRMATIONS_PER_DAY = 3
/** After so many unanswered requests to one contact, forms wait longer. */
const FORM_WAIT_STEPS: readonly { readonly asked: number; readonly waitMs: number }[] = [
  { asked: 7, waitMs: days(30) },
  { asked: 3, waitMs: days(7) },
]

const sql = prepareStatements((db) => ({
  confirmingSince: db.prepare<{ since: Millis | null }, [number]>(
    'SELECT confirming_since AS since FROM contacts WHERE id = ?',
  ),
  welcomedAt: db.prepare<{ at: Millis | null }, [number]>('SELECT welcome_sent_at AS at FROM contacts WHERE id = ?'),
  verifiedDomain: db.prepare<{ domain: string }, [number]>(
    'SELECT domain FROM domains WHERE account_id = ? AND verified_at IS NOT NULL AND deleted_at IS NULL ORDER BY id LIMIT 1',
  ),
}))

/** The default sender: no-reply at the account's first verified domain; undefined while it has none. */
export function findNoReplySender(db: Database, accountId: number): string | undefined {
  const row = sql(db).verifiedDomain.get(accountId)
  return row ? `no-reply@${row.domain}` : undefined
}

/** The sender of a confirmation: that of the form, if its domain is still verified, or the default; undefined: none. */
export function findConfirmationSender(db: Database, accountId: number, from?: string | null): string | undefined {
  return from && findSendingDomain(db, accountId, domainOfMailbox(from))?.isVerified
    ? from
    : findNoReplySender(db, accountId)
}

/** Throws 422 `no_verified_domain` when the account has no address that could send a confirmation. */
export function requireConfirmable({ db }: Pick<App, 'db'>, accountId: number, from?: string): void {
  if (findConfirmationSender(db, accountId, from) === undefined)
    throw new AppError(
      422,
      'no_verified_domain',
      'This address has to confirm first, and there is no verified domain to send the confirmation from; verify a domain of the account, or use a list without double opt-in.',
    )
}

/** A new confirmation request for a contact. */
export interface NewConfirmation extends ConfirmationData {
  /** Row id of a contact that is not active. */
  readonly contactId: number
  readonly accountId: number
  /** Added in bulk: its request waits for the pace of `subscription-notices.ts`. */
  readonly isBulk: boolean
}

/**
 * Schedules a confirmation request to a contact. If an earlier request still waits, no second one is added; the waiting
 * one loses its bulk delay unless the new one is bulk as well. The caller checks `getConfirmationWaitMs` first. Returns
 * true when this adds an email. Throws for an active contact.
 */
export function scheduleConfirmation(
  app: Pick<App, 'clock' | 'eventTime' | 'noticeDue'>,
  tx: Tx,
  { contactId, accountId, from, language, isBulk }: NewConfirmation,
): boolean {
  const statements = sql(tx.db)
  const before = statements.confirmingSince.get(contactId)?.since ?? null
  const waiting = findWaitingConfirmation(tx.db, contactId)
  // If the contact has left since its last request, the waiting row would be dropped and its link rejected.
  if (!waiting || before === null) requestConfirmation(app, tx, contactId)
  if (waiting && isBulk) return false
  // One without a sender and a language of its own gets those of the request that waits.
  const known = JSON.parse(waiting?.data ?? '{}') as ConfirmationData
  if (waiting) cancelNotice(tx, waiting.kind, contactId)
  const kind: SubscriptionMailKind = isBulk ? 'bulk_confirmation' : 'confirmation'
  const data = JSON.stringify({ from: from ?? known.from, language: language ?? known.language })
  scheduleNotice(app, tx, { accountId, kind, topic: contactId, data, dueAt: app.clock.now() })
  return !waiting
}

const findWaitingConfirmation = (db: Database, contactId: number): Notice | undefined =>
  findNotice(db, 'confirmation', contactId) ?? findNotice(db, 'bulk_confirmation', contactId)

/** Deletes the waiting mail of a contact. */
export function cancelSubscriptionMails(tx: Tx, contactId: number): void {
  for (const kind of SUBSCRIPTION_MAIL_KINDS) cancelNotice(tx, kind, contactId)
}

/** How long to wait before another request to a contact; 0 also while one waits, because there is no second email. */
export function getConfirmationWaitMs(
  db: Database,
  contact: Pick<Contact, 'id' | 'confirmingSince' | 'earlierRequests'>,
  now: Millis,
): number {
  const { id, confirmingSince } = contact
  if (confirmingSince === null || findWaitingConfirmation(db, id)) return 0
  const earlier = readEarlierRequests(contact, now).filter((at) => at > now - days(1))
  const asked = [confirmingSince, ...earlier].sort((a, b) => b - a)
  const last = asked[0] ?? 0
  const first = asked[MAX_CONFIRMATIONS_PER_DAY - 1] ?? -days(1)
  return Math.max(0, last + MIN_CONFIRMATION_INTERVAL_MS - now, first + days(1) - now)
}

/** The same for a form: longer, the more requests the contact has left unanswered. */
export function getFormWaitMs(db: Database, contact: Contact, now: Millis): number {
  const { id, confirmingSince } = contact
  if (confirmingSince === null || findWaitingConfirmation(db, id)) return 0
  const asked = 1 + readEarlierRequests(contact, now).length
  const waitMs = FORM_WAIT_STEPS.find((wait) => asked >= wait.asked)?.waitMs ?? 0
  return Math.max(getConfirmationWaitMs(db, contact, now), confirmingSince + waitMs - now)
}

/** Schedules the welcome of a contact that has just become active, once, if its list has one, and starts its sequences. */
export function scheduleWelcome(
  app: Pick<App, 'clock' | 'noticeDue'>,
  tx: Tx,
  contactId: number,
  list: ContactList,
): void {
  enterOfList(app, tx, contactId, list.id)
  if (!list.welcomeEnabled) return
  const contact = sql(tx.db).welcomedAt.get(contactId)
  if (!contact || contact.at !== null) return
  if (findNotice(tx.db, 'welcome', contactId)) return
  const dueAt = app.clock.now() + seconds(list.welcomeDelaySeconds)
  scheduleNotice(app, tx, { accountId: list.accountId, kind: 'welcome', topic: contactId, dueAt })
}
