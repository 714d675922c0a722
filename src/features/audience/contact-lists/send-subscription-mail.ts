/**
 * @module Sends one subscription mail to a contact: built from the current state, and accepted in the transaction that
 * deletes its outbox row. If the contact no longer wants or needs it, the row is deleted and nothing is sent. Does not
 * decide when to send or how to handle failures.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/base-url.ts'
import { type Contact, findContactById } from '#features/setup/contact-store/find.ts'
import { type ContactList, findListById } from '#features/setup/contact-store/lists.ts'
import { markWelcomed } from '#features/setup/contact-store/status.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import { findShownTexts, LOGO_PATH } from '#features/setup/wording/wording.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { type Language, parseLanguage } from '#platform/http/language.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { domainOfMailbox, formatMailbox } from '#protocols/address/parse.ts'
import { CONFIRM_PATH, sealConfirmToken } from './confirm-token.ts'
import { renderConfirmationMail } from './confirmation-mail.ts'
import { findConfirmationSender, findNoReplySender, type SubscriptionMailKind } from './subscription-mails.ts'
import { createWelcomeDraft } from './welcome.ts'

/** A row of the outbox. */
export interface OutboxMail {
  readonly id: number
  readonly accountId: number
  readonly accountUuid: UuidBytes
  readonly contactId: number
  readonly kind: SubscriptionMailKind
  /** Sender of a confirmation in header form; null: none was provided. */
  readonly from: string | null
  /** Language of the visitor who submitted a form; null: nobody did. */
  readonly language: string | null
  /** Failed attempts. */
  readonly attempts: number
}

/** The account has no sender to use. */
export class NoVerifiedSenderError extends Error {}

/** Thrown to roll back the acceptance of an email that must not be sent. */
class WithdrawnError extends Error {}

const sql = prepareStatements((db) => ({
  remove: db.prepare<{ id: number }, [number]>('DELETE FROM contact_mails WHERE id = ? RETURNING id'),
}))

/**
 * Sends an email, or deletes its row when there is no reason for it any more; resolves when that is on disk. Throws
 * NoVerifiedSenderError, and any error of building and accepting an email: then the row stays.
 */
export async function sendSubscriptionMail(app: App, mail: OutboxMail): Promise<void> {
  const reason = findReason(app.db, mail)
  if (!reason) return withdraw(app, mail)
  using rendering = startRenderSession(app)
  const draft =
    mail.kind === 'welcome'
      ? await createWelcomeDraft(
          app,
          { ...reason, accountUuid: mail.accountUuid, from: requireWelcomeSender(app.db, reason.list) },
          rendering,
        )
      : createConfirmationDraft(app, mail, reason)
  try {
    await acceptEmail(app, createSystemActor(mail), draft, undefined, (tx, response) =>
      claimRow(tx, mail, reason, response),
    )
  } catch (error) {
    if (!(error instanceof WithdrawnError)) throw error
    await withdraw(app, mail)
  }
}

/** Why an email is sent. */
interface SendReason {
  readonly contact: Contact
  readonly list: ContactList
}

/** Why an email is to be sent now; undefined when there is no reason any more. */
function findReason(db: Database, { accountId, contactId, kind }: OutboxMail): SendReason | undefined {
  const contact = findContactById(db, contactId)
  const list = contact && findListById(db, contact.listId)
  if (!contact || !list) return undefined
  const isWelcome = kind === 'welcome'
  const isWanted = isWelcome
    ? contact.status === 'active' && contact.welcomeSentAt === null && list.welcomeEnabled
    : contact.status !== 'active' && contact.confirmingSince !== null
  if (!isWanted) return undefined
  const suppression = suppressionOf(db, {
    accountId,
    address: contact.email,
    transactional: !isWelcome,
    streamId: findStreamId(db, accountId, DEFAULT_STREAM) ?? 0,
    listId: list.id,
  })
  return suppression ? undefined : { contact, list }
}

/**
 * Called in the transaction that accepts the email: deletes its row, unless things have changed since the email was
 * built.
 */
function claimRow(
  tx: Tx,
  mail: OutboxMail,
  { contact }: SendReason,
  { status, created_at }: Pick<SendResponse, 'status' | 'created_at'>,
): void {
  const current = findReason(tx.db, mail)?.contact
  const isSame = current !== undefined && current.confirmingSince === contact.confirmingSince
  if (!isSame || status === 'rejected' || !sql(tx.db).remove.get(mail.id)) throw new WithdrawnError()
  // The unsubscribe link in the email's text does not contain its id: this time identifies the email later.
  if (mail.kind === 'welcome' && !markWelcomed(tx, mail.contactId, Date.parse(created_at))) throw new WithdrawnError()
}

/**
 * Deletes a row if there is no reason for its email any more. If there is a reason again, the row stays and is retried.
 */
const withdraw = (app: App, mail: OutboxMail): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    if (!findReason(tx.db, mail)) sql(tx.db).remove.get(mail.id)
  })

/** RFC 3834 §5, and the header that Exchange reads: they prevent out-of-office replies. */
const AUTOMATIC_HEADERS = { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' }

function createConfirmationDraft(app: App, mail: OutboxMail, { contact, list }: SendReason): Draft {
  const from = findConfirmationSender(app.db, mail.accountId, mail.from)
  if (from === undefined) throw new NoVerifiedSenderError('The account has no verified domain to send from.')
  const senderDomain = domainOfMailbox(from)
  const texts = findShownTexts(app.db, mail.accountUuid, {
    language: chooseMailLanguage(mail, contact),
    sender: senderDomain,
    list: list.name,
    toLogoUrl: (hash) => `${trimTrailingSlashes(app.config.publicUrl)}${LOGO_PATH}/${hash}`,
  })
  const { subject, text, html } = renderConfirmationMail(texts, {
    listName: list.name,
    address: contact.email,
    senderDomain,
    url: formatConfirmUrl(app, mail, contact, senderDomain, app.eventTime()),
    days: app.config.confirmationDays,
  })
  const draft = createDraft(
    app,
    // Tracking would replace the link, and the text shows the link's URL.
    { from: addName(from, texts.name), to: contact.email, subject, text_body: text, html_body: html, tracking: false },
    undefined,
  )
  return { ...draft, extra: { ...draft.extra, headers: AUTOMATIC_HEADERS } }
}

/** A sender without a name of its own gets the account's. @param from in header form */
const addName = (from: string, name: string | null): string =>
  name === null || from.includes('<') ? from : formatMailbox({ name, address: from })

/** The contact's `language` in its metadata, if translated; else the visitor's, else English. */
function chooseMailLanguage({ language }: OutboxMail, { metadata }: Contact): Language {
  const fields: Record<string, unknown> = metadata === null ? {} : JSON.parse(metadata)
  return parseLanguage(fields['language']) ?? parseLanguage(language) ?? 'en'
}

function formatConfirmUrl(
  { config, keys }: App,
  { accountUuid }: OutboxMail,
  { id, listId, confirmingSince }: Contact,
  senderDomain: string,
  madeAt: Millis,
): string {
  const facts = { accountUuid, listId, contactId: id, since: confirmingSince ?? 0, madeAt, senderDomain }
  return `${trimTrailingSlashes(config.publicUrl)}${CONFIRM_PATH}/${sealConfirmToken(keys, facts)}`
}

function requireWelcomeSender(db: Database, list: ContactList): string {
  const from = list.welcomeFrom ?? findNoReplySender(db, list.accountId)
  if (from === undefined) throw new NoVerifiedSenderError('The account has no verified domain to send from.')
  return from
}
