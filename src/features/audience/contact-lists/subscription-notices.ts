/**
 * @module How notices to contacts become mail, and what becomes of those whose mail fails. Mail that an account cannot
 * send waits until it can, for three days at most. What is wrong with one mail is tried again for as long, or given up
 * with an audit entry. Each is built from the current state, and accepted as any email of the account in the transaction
 * that deletes its notice. If the contact no longer wants or needs it, the notice is deleted and nothing is sent.
 */
import type { Database } from 'bun:sqlite'
import { findAccountUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { audit, createSystemActor } from '#features/core/audit-logs/audit.ts'
import {
  deleteNotice,
  deleteOverdueNotices,
  type Notice,
  type NoticeKind,
  postponeNotice,
} from '#features/core/notices/notices.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { AUTOMATIC_HEADERS } from '#features/sending/system-mail/send.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { createUnsubscribeToken, createUnsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import { type Contact, findContactById } from '#features/setup/contact-store/find.ts'
import { type ContactList, findListById } from '#features/setup/contact-store/lists.ts'
import { markWelcomed } from '#features/setup/contact-store/status.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { formatBroadcastData, formatSharedData } from '#features/setup/templates/broadcast-data.ts'
import { type RenderSession, startRenderSession } from '#features/setup/templates/render.ts'
import { findTemplateByRowId, toTemplateSource } from '#features/setup/templates/templates.ts'
import { findShownTexts, LOGO_PATH } from '#features/setup/wording/wording.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { isStorageFailure, toPublicReason } from '#platform/disk/storage-errors.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { type Language, parseLanguage } from '#platform/http/language.ts'
import { createRateLimiter, type Rate, type RateLimiter } from '#platform/http/rate-limit.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import type { TemplateSource } from '#platform/template/renderer.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import { domainOfMailbox, formatMailbox } from '#protocols/address/parse.ts'
import { CONFIRM_PATH, sealConfirmToken } from './confirm-token.ts'
import { CONFIRMATION_DAYS, renderConfirmationMail } from './confirmation-mail.ts'
import {
  type ConfirmationData,
  findConfirmationSender,
  findNoReplySender,
  SUBSCRIPTION_MAIL_KINDS,
  type SubscriptionMailKind,
} from './subscription-mails.ts'

const sql = prepareStatements((db) => ({
  contact: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM contacts WHERE id = ?'),
}))

const BATCH_SIZE = 25
/** Bulk confirmations of an account leave at this pace. */
const BULK_PER_MINUTE = 600
const BULK_BATCH_SIZE = BULK_PER_MINUTE / 60
/** Welcomes that are rendered at the same time: each holds its bodies in memory. */
const MAX_CONCURRENT_RENDERS = 5
/** How long mail waits for its account: it may be paused over a weekend. */
const MAX_WAIT_MS = days(3)
const RETRY_DELAYS = { minMs: minutes(1), maxMs: hours(6) }
/** The retry delays of 1, 2, 4, … minutes up to 6 hours add up to about three days. */
const MAX_ATTEMPTS = 20
/** Maximum number of notices given up per transaction when an account cannot send. */
const GIVE_UP_BATCH_SIZE = 500
/** Rate of audit rows and warnings per account: a faulty template may fail for each of a million contacts. */
const FAILURE_LOG_RATE: Rate = { burst: 20, ratePerSecond: 20 / 3600 }

/** The kinds that `core/notices/notices.ts` sends. */
export function createSubscriptionKinds(app: App): readonly NoticeKind[] {
  const failureLogLimiter = createRateLimiter(app.clock)
  const batchSizes: Readonly<Record<SubscriptionMailKind, number>> = {
    confirmation: BATCH_SIZE,
    welcome: MAX_CONCURRENT_RENDERS,
    bulk_confirmation: BULK_BATCH_SIZE,
  }
  return SUBSCRIPTION_MAIL_KINDS.map((kind) => ({
    kind,
    batchSize: batchSizes[kind],
    async send(notices) {
      const now = app.clock.now()
      const accountId = notices[0]?.accountId ?? 0
      // Without an account there are no contacts either, so nothing is sent.
      const accountUuid = findAccountUuid(app.db, accountId) ?? new Uint8Array(16)
      const mails = notices.map((notice) => ({ ...notice, kind, accountUuid }))
      const errors = await Promise.all(mails.map((mail) => trySend(app, mail, failureLogLimiter)))
      const failure = errors.find((error) => error !== undefined && !isAccountError(error))
      if (failure !== undefined) throw failure
      const error = errors.find(isAccountError)
      if (mails[0] && error) {
        await giveUpOverdue(app, mails[0], error)
        return 'held'
      }
      return kind === 'bulk_confirmation' ? now + (notices.length * minutes(1)) / BULK_PER_MINUTE : undefined
    },
  }))
}

/** Resolves with the error of an account that cannot send, of a failing storage or of a bug; the notice then stays. */
async function trySend(app: App, mail: SubscriptionMail, failureLogLimiter: RateLimiter): Promise<unknown> {
  try {
    await sendSubscriptionMail(app, mail)
  } catch (error) {
    if (isStorageFailure(error) || isAccountError(error)) return error
    return retryOrGiveUp(app, mail, error, failureLogLimiter).then(
      () => undefined,
      (failure: unknown) => failure,
    )
  }
  return undefined
}

/** Whether the account as a whole cannot send, so that its other mail need not be tried. */
const isAccountError = (error: unknown): error is AppError =>
  error instanceof AppError && ['account_paused', 'quota_exceeded', 'no_verified_domain'].includes(error.code)

/** Whether the welcome itself is invalid, so that a retry would fail the same way. */
const isWelcomeError = (kind: SubscriptionMailKind, error: unknown): boolean =>
  kind === 'welcome' &&
  error instanceof AppError &&
  error.status === 422 &&
  !['domain_not_found', 'domain_not_verified'].includes(error.code)

async function retryOrGiveUp(
  app: App,
  mail: SubscriptionMail,
  error: unknown,
  failureLogLimiter: RateLimiter,
): Promise<void> {
  if (!isWelcomeError(mail.kind, error) && mail.attempts + 1 < MAX_ATTEMPTS) {
    // An error that the client can fix is not a bug of ours.
    if (!(error instanceof AppError)) app.log.error({ err: error, mail: mail.id }, 'subscription mail failed; retrying')
    const dueAt = app.clock.now() + backoffDelayMs(mail.attempts + 1, RETRY_DELAYS)
    return app.commit.writeFromReserve((tx) => postponeNotice(tx, mail, dueAt))
  }
  const reason = toPublicReason(error)
  const isLogged = failureLogLimiter.take(String(mail.accountId), 1, FAILURE_LOG_RATE).ok
  if (isLogged) app.log.warn({ contact: mail.topic, kind: mail.kind, reason }, 'subscription mail given up')
  return app.commit.writeFromReserve((tx) => {
    if (!deleteNotice(tx, mail) || !isLogged) return
    const contact = sql(tx.db).contact.get(mail.topic)
    auditFailure(app, tx, mail, { reason }, contact && formatUuid(contact.uuid))
  })
}

/** Deletes mail that has waited too long for its account, one batch at a time, with one audit row for all of it. */
const giveUpOverdue = (app: App, mail: SubscriptionMail, { message: reason }: AppError): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const count = deleteOverdueNotices(tx, mail, app.clock.now() - MAX_WAIT_MS, GIVE_UP_BATCH_SIZE)
    if (count === 0) return
    app.log.warn({ accountId: mail.accountId, kind: mail.kind, count, reason }, 'subscription mails given up')
    auditFailure(app, tx, mail, { count, reason })
  })

const auditFailure = (
  app: App,
  tx: Tx,
  mail: SubscriptionMail,
  metadata: Readonly<Record<string, unknown>>,
  resourceId?: string | null,
): void =>
  audit(app, tx, createSystemActor(mail), {
    action: mail.kind === 'welcome' ? 'contact.welcome_failed' : 'contact.confirmation_failed',
    resourceType: 'contact',
    ...(resourceId && { resourceId }),
    metadata,
  })

/** A notice to a contact. */
interface SubscriptionMail extends Notice {
  readonly kind: SubscriptionMailKind
  readonly accountUuid: UuidBytes
}

/** Thrown to roll back the acceptance of an email that must not be sent. */
class WithdrawnError extends Error {}

/**
 * Sends an email, or deletes its notice when there is no reason for it any more; resolves when that is on disk. Throws
 * 422 `no_verified_domain`, and any error of building and accepting an email: then the notice stays.
 */
async function sendSubscriptionMail(app: App, mail: SubscriptionMail): Promise<void> {
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
      claimNotice(tx, mail, reason, response),
    )
  } catch (error) {
    if (!(error instanceof WithdrawnError)) throw error
    await withdraw(app, mail)
  }
}

interface SendReason {
  readonly contact: Contact
  readonly list: ContactList
}

/** Why an email is to be sent now; undefined when there is no reason any more. */
function findReason(db: Database, { accountId, topic, kind }: SubscriptionMail): SendReason | undefined {
  const contact = findContactById(db, topic)
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

/** Deletes the notice in the transaction that accepts its email, unless things have changed since it was built. */
function claimNotice(
  tx: Tx,
  mail: SubscriptionMail,
  { contact }: SendReason,
  { status, created_at }: Pick<SendResponse, 'status' | 'created_at'>,
): void {
  const current = findReason(tx.db, mail)?.contact
  const isSame = current !== undefined && current.confirmingSince === contact.confirmingSince
  if (!isSame || status === 'rejected' || !deleteNotice(tx, mail)) throw new WithdrawnError()
  // The unsubscribe link in the email's text does not contain its id: this time identifies the email later.
  if (mail.kind === 'welcome' && !markWelcomed(tx, mail.topic, Date.parse(created_at))) throw new WithdrawnError()
}

/** Deletes a notice if there is no reason for its email any more. If there is one again, it stays and is retried. */
const withdraw = (app: App, mail: SubscriptionMail): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    if (!findReason(tx.db, mail)) deleteNotice(tx, mail)
  })

function createConfirmationDraft(app: App, mail: SubscriptionMail, { contact, list }: SendReason): Draft {
  const asked = JSON.parse(mail.data ?? '{}') as ConfirmationData
  const from = findConfirmationSender(app.db, mail.accountId, asked.from)
  if (from === undefined) throw createNoSenderError()
  const senderDomain = domainOfMailbox(from)
  const texts = findShownTexts(app.db, mail.accountUuid, {
    language: chooseMailLanguage(asked, contact),
    sender: senderDomain,
    list: list.name,
    toLogoUrl: (hash) => `${trimTrailingSlashes(app.config.publicUrl)}${LOGO_PATH}/${hash}`,
  })
  const { subject, text, html } = renderConfirmationMail(texts, {
    listName: list.name,
    address: contact.email,
    senderDomain,
    url: formatConfirmUrl(app, mail, contact, senderDomain, app.eventTime()),
    days: CONFIRMATION_DAYS,
  })
  const draft = createDraft(
    app,
    // Tracking would replace the link, and the text shows the link's URL.
    { from: addName(from, texts.name), to: contact.email, subject, text_body: text, html_body: html, tracking: false },
  )
  return { ...draft, extra: { ...draft.extra, headers: AUTOMATIC_HEADERS } }
}

/** A sender without a name of its own gets the account's. @param from in header form */
const addName = (from: string, name: string | null): string =>
  name === null || from.includes('<') ? from : formatMailbox({ name, address: from })

/** The contact's `language` in its metadata, if translated; else the visitor's, else English. */
function chooseMailLanguage({ language }: ConfirmationData, { metadata }: Contact): Language {
  const fields: Record<string, unknown> = metadata === null ? {} : JSON.parse(metadata)
  return parseLanguage(fields['language']) ?? parseLanguage(language) ?? 'en'
}

function formatConfirmUrl(
  { config, keys }: App,
  { accountUuid }: SubscriptionMail,
  { id, listId, confirmingSince }: Contact,
  senderDomain: string,
  madeAt: Millis,
): string {
  const facts = { accountUuid, listId, contactId: id, since: confirmingSince ?? 0, madeAt, senderDomain }
  return `${trimTrailingSlashes(config.publicUrl)}${CONFIRM_PATH}/${sealConfirmToken(keys, facts)}`
}

const createNoSenderError = (): AppError =>
  new AppError(422, 'no_verified_domain', 'The account has no verified domain to send from.')

function requireWelcomeSender(db: Database, list: ContactList): string {
  const from = list.welcomeFrom ?? findNoReplySender(db, list.accountId)
  if (from === undefined) throw createNoSenderError()
  return from
}

interface Welcome {
  readonly accountUuid: UuidBytes
  readonly list: ContactList
  readonly contact: Contact
  /** Sender in header form. */
  readonly from: string
}

/**
 * The draft of a list's welcome for a contact. Throws an AppError that says what is wrong with the welcome: a template
 * error (422), a deleted template, an invalid sender; a 503 when it cannot be rendered at the moment.
 */
async function createWelcomeDraft(app: App, welcome: Welcome, rendering: RenderSession): Promise<Draft> {
  const { list, contact, from } = welcome
  const parts = await rendering.render({
    accountId: list.accountId,
    urgency: 'bulk',
    source: toWelcomeSource(app, list),
    dataJson: toDataJson(app, welcome),
  })
  const draft = createDraft(app, {
    from,
    to: contact.email,
    subject: parts.subject ?? null,
    html_body: parts.html ?? null,
    text_body: parts.text ?? null,
    transactional: false,
  })
  return { ...draft, listId: list.id, templateId: list.welcomeTemplateId ?? undefined }
}

/** A template takes precedence over the list's bodies; the list's subject takes precedence over the template's. */
function toWelcomeSource(app: App, list: ContactList): TemplateSource {
  const { welcomeSubject, welcomeHtml: htmlBody, welcomeText: textBody } = list
  if (list.welcomeTemplateId === null)
    return toTemplateSource({ subject: welcomeSubject ?? undefined, htmlBody, textBody })
  const template = findTemplateByRowId(app.db, list.welcomeTemplateId)
  if (!template)
    throw invalid(
      'welcome_email_template_id',
      'The template of the welcome email was deleted; set another one in the list.',
      'template_not_found',
    )
  return toTemplateSource({ ...template, subject: welcomeSubject ?? template.subject })
}

/** The variables are those of a broadcast to the list, so that one template serves both. */
function toDataJson({ keys, config }: App, { accountUuid, list, contact, from }: Welcome): string {
  const metadata: Record<string, unknown> = contact.metadata === null ? {} : JSON.parse(contact.metadata)
  const token = createUnsubscribeToken(keys, {
    accountUuid,
    // The email is not stored yet, and an unsubscribe link does not need its row. The contact's id serves as recipient
    // id, since each contact has its own.
    emailId: 0,
    recipientId: contact.id,
    address: contact.email,
    senderDomain: domainOfMailbox(from),
    streamId: 0,
    listId: list.id,
  })
  return formatBroadcastData({
    shared: formatSharedData(undefined, list),
    contact: { id: formatUuid(contact.uuid), email: contact.email, metadata },
    unsubscribeUrl: createUnsubscribeUrl(config, token),
  })
}
