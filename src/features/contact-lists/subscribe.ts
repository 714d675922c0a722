/**
 * @module Puts an address on a list because somebody typed it into a form. Whoever types it proves nothing: nobody comes back to a list without a click in
 * an email, nobody is asked again and again, and the answer does not tell whether an address may be sent to.
 */
import type { App } from '#features/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { noSuch } from '#platform/http/schemas.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { audit, systemActor } from '../audit-logs/audit.ts'
import { type Contact, findContact } from '../contacts/find.ts'
import { type ContactList, listById } from '../contacts/lists.ts'
import { insertContact, setContactMetadata } from '../contacts/status.ts'
import { suppressionOf, UNSUBSCRIBE } from '../suppressions/check.ts'
import { type CheckedContact, checkedContact } from './add.ts'
import {
  confirmationWaitMs,
  isAskedTooOften,
  requireConfirmable,
  scheduleConfirmation,
  scheduleWelcome,
} from './contact-mails.ts'

const sql = prepared((db) => ({
  account: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
}))

/** What whoever typed the address is told. */
export type Subscribed = 'subscribed' | 'confirmation_sent' | 'confirmation_pending' | 'already_subscribed'

export interface SubscribeInput {
  readonly list: ContactList
  readonly email: string
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /** Sender of the confirmation, in header form. */
  readonly from?: string | undefined
}

/**
 * Puts an address on a list, or asks it by email to confirm that it wants to be there; resolves when that is on disk. Who left the list, or all lists of the
 * account, is always asked. An address that nothing may be sent to gets nothing, and the answer is that of one that is asked.
 *
 * Throws 422 `invalid_address` and `no_verified_domain`, 404 when the list is gone.
 */
export async function subscribe(app: App, { list: given, email, metadata, from }: SubscribeInput): Promise<Subscribed> {
  const checked = checkedContact(app, { email, metadata })
  return app.commit.write((tx) => {
    const list = listById(tx.db, given.id)
    if (!list) throw noSuch('contact_list_not_found', 'contact list')
    const contact = findContact(tx.db, list.id, checked.email)
    if (contact?.status === 'active') return 'already_subscribed'
    const reason = stoppedBy(tx, list, contact, checked.email)
    if (reason !== undefined) {
      app.log.info(
        { list: formatUuid(list.uuid), reason },
        'an address was entered that gets no mail; it was not asked',
      )
      return 'confirmation_sent'
    }
    const scheduled = { ...checked, metadata: metadata === undefined ? undefined : checked.metadata, from }
    return contact ? askAgain(app, tx, list, contact, scheduled) : addNew(app, tx, list, scheduled)
  })
}

interface Scheduled extends Omit<CheckedContact, 'metadata'> {
  /** JSON object; undefined: none was given. */
  readonly metadata: string | undefined
  readonly from: string | undefined
}

/** Why an address gets no mail at all; undefined when it can be asked. */
function stoppedBy(tx: Tx, list: ContactList, contact: Contact | undefined, email: string): string | undefined {
  if (contact?.status === 'bounced' || contact?.status === 'complained') return contact.status
  return suppressionOf(tx.db, { accountId: list.accountId, address: email, transactional: true, streamId: 0 })?.reason
}

function addNew(app: App, tx: Tx, list: ContactList, { email, metadata, from }: Scheduled): Subscribed {
  const { id: listId, accountId } = list
  const mustConfirm = list.doubleOptIn || hasLeft(tx, list, email)
  if (mustConfirm) {
    requireConfirmable(app, accountId, from)
    // Somebody enters an address everywhere that is not theirs.
    if (isAskedTooOften(tx.db, { accountId, addressKey: normaliseAddress(email) }, app.eventTime())) {
      app.log.info({ list: formatUuid(list.uuid) }, 'an address was entered on many lists; it was not asked again')
      return 'confirmation_sent'
    }
  }
  const status = mustConfirm ? 'pending' : 'active'
  const inserted = insertContact(app, tx, { accountId, listId, email, metadata, status })
  if (!inserted) throw new Error('the contact is on the list already')
  const contactId = inserted.id
  if (mustConfirm) scheduleConfirmation(app, tx, { contactId, accountId, from, isBulk: false })
  else scheduleWelcome(app, tx, { contactId, accountId, list })
  const accountUuid = sql(tx.db).account.get(accountId)?.uuid
  if (!accountUuid) throw new Error(`account ${accountId} does not exist`)
  audit(app, tx, systemActor({ accountId, accountUuid }), {
    action: 'contact.created',
    resourceType: 'contact',
    resourceId: formatUuid(inserted.uuid),
    metadata: { list_id: formatUuid(list.uuid), by: 'form', status },
  })
  return mustConfirm ? 'confirmation_sent' : 'subscribed'
}

/** Whether an address unsubscribed from the list, or from all lists of the account. */
const hasLeft = (tx: Tx, { id, accountId }: ContactList, address: string): boolean =>
  suppressionOf(tx.db, { accountId, address, transactional: false, streamId: 0, listId: id })?.reason === UNSUBSCRIBE

/** Of a contact that is pending or has left: one more email, unless it had one a short while ago. Its owner's metadata stays until it has confirmed. */
function askAgain(app: App, tx: Tx, list: ContactList, contact: Contact, { metadata, from }: Scheduled): Subscribed {
  const isPending = contact.status === 'pending'
  if (isPending && metadata !== undefined) setContactMetadata(tx, contact.id, metadata)
  requireConfirmable(app, list.accountId, from)
  const now = app.eventTime()
  const isTooOften = confirmationWaitMs(tx.db, contact, now) > 0 || (!isPending && isAskedTooOften(tx.db, contact, now))
  if (!isTooOften)
    scheduleConfirmation(app, tx, { contactId: contact.id, accountId: list.accountId, from, isBulk: false })
  return isPending ? 'confirmation_pending' : 'confirmation_sent'
}
