/**
 * @module Subscribes an address that someone entered in a form. A form proves nothing about the address, so no contact
 * resubscribes without a click in an email, confirmation requests are limited, and the response does not show whether
 * the address can get mail.
 */

import { findAccountUuid } from '#features/core/accounts/accounts.ts'
import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { type Contact, findContact } from '#features/setup/contact-store/find.ts'
import { type ContactList, findListById } from '#features/setup/contact-store/lists.ts'
import { insertContact, setContactMetadata } from '#features/setup/contact-store/status.ts'
import { suppressionOf, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import type { Tx } from '#platform/db/open.ts'
import type { Language } from '#platform/http/language.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { auditContact, type CheckedContact, checkContact } from './contacts.ts'
import {
  isMailLimitReached,
  recordSubmission,
  SUBMISSION_RETENTION_MS,
  type Submission,
  wasSubmitted,
} from './form-submissions.ts'
import { MAX_METADATA_BYTES } from './model.ts'
import { getFormWaitMs, requireConfirmable, scheduleConfirmation, scheduleWelcome } from './subscription-mails.ts'

/** The fraction of the plan's contact limit that forms may fill: the rest is for the account itself. */
const MAX_FORM_FRACTION = 0.9

/** The result that the form's visitor sees. */
export type SubscribeStatus = 'subscribed' | 'confirmation_sent' | 'confirmation_pending' | 'already_subscribed'

export interface SubscribeInput {
  readonly list: ContactList
  readonly email: string
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /** Sender of the confirmation, in header form. */
  readonly from?: string | undefined
  readonly language?: Language | undefined
  /**
   * Throws when forms may cause no more mail for now. Called for every submission that may cause mail, also for
   * suppressed addresses: the response must not show that an address is suppressed.
   */
  readonly admit?: (() => void) | undefined
}

/**
 * Subscribes an address, or sends it a confirmation request; resolves when the change is on disk. An address that left
 * the list, or all lists of the account, always gets a confirmation request. A suppressed address gets no mail, but its
 * responses are those of a new address, even when it is submitted again. Throws 422 `invalid_address` and
 * `no_verified_domain`, 404 when the list has been deleted, and whatever `admit` throws.
 */
export async function subscribe(
  app: App,
  { list: requested, email, metadata, from, language, admit }: SubscribeInput,
): Promise<SubscribeStatus> {
  const checked = checkContact({ email, metadata })
  return app.commit.write((tx) => {
    const list = findListById(tx.db, requested.id)
    if (!list) throw notFoundById('contact_list_not_found', 'contact list')
    const contact = findContact(tx.db, list.id, checked.email)
    if (contact?.status === 'active') return 'already_subscribed'
    const { accountId, id: listId } = list
    const mayMail = list.doubleOptIn || list.welcomeEnabled || contact !== undefined || hasLeft(tx, list, checked.email)
    if (mayMail) admit?.()
    const submission = { accountId, listId, addressKey: normaliseAddress(checked.email) }
    const now = app.eventTime()
    const isAgain =
      wasSubmitted(app, tx.db, submission, now) ||
      (contact?.confirmingSince ?? Number.NEGATIVE_INFINITY) > now - SUBMISSION_RETENTION_MS
    const reason = findStopReason(tx, list, contact, checked.email)
    if (reason !== undefined) {
      app.log.info(
        { list: formatUuid(list.uuid), reason },
        'form submission of a suppressed address; no confirmation sent',
      )
      recordSubmission(app, tx, submission, { isSent: false })
      if (list.doubleOptIn || contact?.status === 'pending') return toConfirmationStatus(isAgain)
      return isAgain ? 'already_subscribed' : 'subscribed'
    }
    const post = {
      ...checked,
      metadata: metadata === undefined ? undefined : checked.metadata,
      from,
      language,
      entered: submission,
      isAgain,
    }
    return contact ? requestConfirmationAgain(app, tx, list, contact, post) : addContact(app, tx, list, post)
  })
}

const toConfirmationStatus = (isAgain: boolean): SubscribeStatus =>
  isAgain ? 'confirmation_pending' : 'confirmation_sent'

interface FormPost extends Omit<CheckedContact, 'metadata'> {
  /** JSON object; undefined: none was provided. */
  readonly metadata: string | undefined
  readonly from: string | undefined
  readonly language: Language | undefined
  readonly entered: Submission
  /** The address was submitted before, or a confirmation request was already sent to it. */
  readonly isAgain: boolean
}

/** Why an address gets no mail at all; undefined when a confirmation request can be sent. */
function findStopReason(tx: Tx, list: ContactList, contact: Contact | undefined, email: string): string | undefined {
  if (contact?.status === 'bounced' || contact?.status === 'complained') return contact.status
  return suppressionOf(tx.db, { accountId: list.accountId, address: email, transactional: true, streamId: 0 })?.reason
}

function addContact(app: App, tx: Tx, list: ContactList, post: FormPost): SubscribeStatus {
  const { email, metadata, from, language, entered: submission, isAgain } = post
  const { id: listId, accountId } = list
  // Limited, because someone may be entering other people's addresses in many forms.
  const isTooOften = isMailLimitReached(app, tx.db, submission, app.eventTime())
  const mustConfirm = list.doubleOptIn || hasLeft(tx, list, email)
  if (mustConfirm) {
    requireConfirmable(app, accountId, from)
    if (isTooOften) {
      app.log.info({ list: formatUuid(list.uuid) }, 'address submitted to many lists; no further confirmation sent')
      recordSubmission(app, tx, submission, { isSent: false })
      return toConfirmationStatus(isAgain)
    }
  }
  const status = mustConfirm ? 'pending' : 'active'
  const insert = () => insertContact(app, tx, { accountId, listId, email, metadata, status })
  const inserted = storeWithinPlan(app, tx, accountId, insert, MAX_FORM_FRACTION)
  if (!inserted) throw new Error('the contact is on the list already')
  const contactId = inserted.id
  if (mustConfirm) scheduleConfirmation(app, tx, { contactId, accountId, from, language, isBulk: false })
  else if (!isTooOften) scheduleWelcome(app, tx, contactId, list)
  if (mustConfirm || (list.welcomeEnabled && !isTooOften)) recordSubmission(app, tx, submission, { isSent: true })
  const accountUuid = findAccountUuid(tx.db, accountId)
  if (!accountUuid) throw new Error(`account ${accountId} does not exist`)
  const actor = createSystemActor({ accountId, accountUuid })
  auditContact(app, tx, actor, 'created', inserted, list, { by: 'form', status })
  return mustConfirm ? toConfirmationStatus(isAgain) : 'subscribed'
}

/** Whether an address unsubscribed from the list, or from all lists of the account. */
const hasLeft = (tx: Tx, { id, accountId }: ContactList, address: string): boolean =>
  suppressionOf(tx.db, { accountId, address, transactional: false, streamId: 0, listId: id })?.reason === UNSUBSCRIBE

/** Repeats the confirmation request of a contact that is pending or has left, unless the last one was recent. */
function requestConfirmationAgain(
  app: App,
  tx: Tx,
  list: ContactList,
  contact: Contact,
  post: FormPost,
): SubscribeStatus {
  const { metadata, from, language, entered: submission, isAgain } = post
  if (contact.status === 'pending' && metadata !== undefined) mergeMetadata(tx, contact, metadata)
  requireConfirmable(app, list.accountId, from)
  const now = app.eventTime()
  const isTooOften = getFormWaitMs(tx.db, contact, now) > 0 || isMailLimitReached(app, tx.db, submission, now)
  const isSent =
    !isTooOften &&
    scheduleConfirmation(app, tx, { contactId: contact.id, accountId: list.accountId, from, language, isBulk: false })
  recordSubmission(app, tx, submission, { isSent })
  return toConfirmationStatus(isAgain)
}

/** Existing metadata stays, because it may come from the account; only new keys are added, within the size limit. */
function mergeMetadata(tx: Tx, { id, metadata: before }: Contact, posted: string): void {
  const known = before === null ? {} : (JSON.parse(before) as Record<string, unknown>)
  const json = JSON.stringify({ ...(JSON.parse(posted) as Record<string, unknown>), ...known })
  if (Buffer.byteLength(json) <= MAX_METADATA_BYTES) setContactMetadata(tx, id, json)
}
