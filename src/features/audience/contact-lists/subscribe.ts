/**
 * @module Puts an address on a list because somebody typed it into a form. Whoever types it proves nothing: nobody comes back to a list without a click in
 * an email, nobody is asked again and again, and the answer does not tell whether an address may be sent to.
 */

import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import type { App } from '#features/core/app/app.ts'
import { audit, systemActor } from '#features/core/audit-logs/audit.ts'
import { type Contact, findContact } from '#features/setup/contact-store/find.ts'
import { type ContactList, listById } from '#features/setup/contact-store/lists.ts'
import { insertContact, setContactMetadata } from '#features/setup/contact-store/status.ts'
import { suppressionOf, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { noSuch } from '#platform/http/schemas.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { type CheckedContact, checkedContact } from './add.ts'
import { formWaitMs, requireConfirmable, scheduleConfirmation, scheduleWelcome } from './contact-mails.ts'
import { type Entered, isFlooded, noteEntered, REMEMBERED_MS, wasEntered } from './form-asks.ts'

const sql = prepared((db) => ({
  account: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
}))

/** Of the contacts that a plan has room for: strangers must not use up what the account adds itself. */
const STRANGERS_FRACTION = 0.9

/** What whoever typed the address is told. */
export type Subscribed = 'subscribed' | 'confirmation_sent' | 'confirmation_pending' | 'already_subscribed'

export interface SubscribeInput {
  readonly list: ContactList
  readonly email: string
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /** Sender of the confirmation, in header form. */
  readonly from?: string | undefined
  /** Throws when forms are to cause no more mail for now; asked for every address that is not on the list, whether it would get any or not. */
  readonly admit?: (() => void) | undefined
}

/**
 * Puts an address on a list, or asks it by email to confirm that it wants to be there; resolves when that is on disk. Who left the list, or all lists of the
 * account, is always asked. An address that nothing may be sent to gets nothing, and the answers are those of one that is new, the second time too.
 *
 * Throws 422 `invalid_address` and `no_verified_domain`, 404 when the list is gone, and what `admit` throws.
 */
export async function subscribe(
  app: App,
  { list: given, email, metadata, from, admit }: SubscribeInput,
): Promise<Subscribed> {
  const checked = checkedContact(app, { email, metadata })
  return app.commit.write((tx) => {
    const list = listById(tx.db, given.id)
    if (!list) throw noSuch('contact_list_not_found', 'contact list')
    const contact = findContact(tx.db, list.id, checked.email)
    if (contact?.status === 'active') return 'already_subscribed'
    const { accountId, id: listId } = list
    const mayMail = list.doubleOptIn || list.welcomeEnabled || contact !== undefined || hasLeft(tx, list, checked.email)
    if (mayMail) admit?.()
    const entered = { accountId, listId, addressKey: normaliseAddress(checked.email) }
    const now = app.eventTime()
    const isAgain =
      wasEntered(app, tx.db, entered, now) ||
      (contact?.confirmingSince ?? Number.NEGATIVE_INFINITY) > now - REMEMBERED_MS
    const reason = stoppedBy(tx, list, contact, checked.email)
    if (reason !== undefined) {
      app.log.info(
        { list: formatUuid(list.uuid), reason },
        'an address was entered that gets no mail; it was not asked',
      )
      noteEntered(app, tx, entered, { isSent: false })
      if (list.doubleOptIn || contact?.status === 'pending') return asked(isAgain)
      return isAgain ? 'already_subscribed' : 'subscribed'
    }
    const post = { ...checked, metadata: metadata === undefined ? undefined : checked.metadata, from, entered, isAgain }
    return contact ? askAgain(app, tx, list, contact, post) : addNew(app, tx, list, post)
  })
}

/** The answer to an address that has to confirm. */
const asked = (isAgain: boolean): Subscribed => (isAgain ? 'confirmation_pending' : 'confirmation_sent')

interface Post extends Omit<CheckedContact, 'metadata'> {
  /** JSON object; undefined: none was given. */
  readonly metadata: string | undefined
  readonly from: string | undefined
  readonly entered: Entered
  /** Entered before, or asked to confirm. */
  readonly isAgain: boolean
}

/** Why an address gets no mail at all; undefined when it can be asked. */
function stoppedBy(tx: Tx, list: ContactList, contact: Contact | undefined, email: string): string | undefined {
  if (contact?.status === 'bounced' || contact?.status === 'complained') return contact.status
  return suppressionOf(tx.db, { accountId: list.accountId, address: email, transactional: true, streamId: 0 })?.reason
}

function addNew(app: App, tx: Tx, list: ContactList, post: Post): Subscribed {
  const { email, metadata, from, entered, isAgain } = post
  const { id: listId, accountId } = list
  // Somebody enters an address everywhere that is not theirs.
  const isTooOften = isFlooded(app, tx.db, entered, app.eventTime())
  const mustConfirm = list.doubleOptIn || hasLeft(tx, list, email)
  if (mustConfirm) {
    requireConfirmable(app, accountId, from)
    if (isTooOften) {
      app.log.info({ list: formatUuid(list.uuid) }, 'an address was entered on many lists; it was not asked again')
      noteEntered(app, tx, entered, { isSent: false })
      return asked(isAgain)
    }
  }
  const status = mustConfirm ? 'pending' : 'active'
  const insert = () => insertContact(app, tx, { accountId, listId, email, metadata, status })
  const inserted = storeWithinPlan(app, tx, accountId, insert, STRANGERS_FRACTION)
  if (!inserted) throw new Error('the contact is on the list already')
  const contactId = inserted.id
  if (mustConfirm) scheduleConfirmation(app, tx, { contactId, accountId, from, isBulk: false })
  else if (!isTooOften) scheduleWelcome(app, tx, { contactId, accountId, list })
  if (mustConfirm || (list.welcomeEnabled && !isTooOften)) noteEntered(app, tx, entered, { isSent: true })
  const accountUuid = sql(tx.db).account.get(accountId)?.uuid
  if (!accountUuid) throw new Error(`account ${accountId} does not exist`)
  audit(app, tx, systemActor({ accountId, accountUuid }), {
    action: 'contact.created',
    resourceType: 'contact',
    resourceId: formatUuid(inserted.uuid),
    metadata: { list_id: formatUuid(list.uuid), by: 'form', status },
  })
  return mustConfirm ? asked(isAgain) : 'subscribed'
}

/** Whether an address unsubscribed from the list, or from all lists of the account. */
const hasLeft = (tx: Tx, { id, accountId }: ContactList, address: string): boolean =>
  suppressionOf(tx.db, { accountId, address, transactional: false, streamId: 0, listId: id })?.reason === UNSUBSCRIBE

/** Of a contact that is pending or has left: one more email, unless it had some not long ago. */
function askAgain(app: App, tx: Tx, list: ContactList, contact: Contact, post: Post): Subscribed {
  const { metadata, from, entered, isAgain } = post
  if (contact.status === 'pending' && metadata !== undefined) addMetadata(app, tx, contact, metadata)
  requireConfirmable(app, list.accountId, from)
  const now = app.eventTime()
  const isTooOften = formWaitMs(tx.db, contact, now) > 0 || isFlooded(app, tx.db, entered, now)
  const isSent =
    !isTooOften &&
    scheduleConfirmation(app, tx, { contactId: contact.id, accountId: list.accountId, from, isBulk: false })
  noteEntered(app, tx, entered, { isSent })
  return asked(isAgain)
}

/** What is known of a contact stays as it is, whoever types: it may be what its owner knows. Only what was not known is added, as far as there is room. */
function addMetadata(app: App, tx: Tx, { id, metadata: before }: Contact, given: string): void {
  const known = before === null ? {} : (JSON.parse(before) as Record<string, unknown>)
  const json = JSON.stringify({ ...(JSON.parse(given) as Record<string, unknown>), ...known })
  if (Buffer.byteLength(json) <= app.config.maxMetadataBytes) setContactMetadata(tx, id, json)
}
