/**
 * @module Removes contacts from lists: one by its address, and those of deleted lists in batches. Also changes their
 * metadata.
 */
import type { Database } from 'bun:sqlite'
import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { findDeletedListAfter, markEmptied } from '#features/setup/contact-store/change-list.ts'
import { type Contact, findContact } from '#features/setup/contact-store/find.ts'
import { type ContactList, getList } from '#features/setup/contact-store/lists.ts'
import { deleteContact, deleteContactsOfList, setContactMetadata } from '#features/setup/contact-store/status.ts'
import type { Tx } from '#platform/db/commit.ts'
import { notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { auditContact, type ContactInput, toMetadataJson } from './add.ts'
import { cancelSubscriptionMails } from './subscription-mails.ts'

/** Contacts per transaction: about 4 ms. */
const BATCH_SIZE = 250

/** Finds a contact by its address, in any spelling; throws 404 `contact_list_not_found`, `contact_not_found`. */
export function getContact(
  db: Database,
  accountId: number,
  listId: string,
  email: string,
): { contact: Contact; list: ContactList } {
  const list = getList(db, accountId, listId)
  const contact = findContact(db, list.id, email)
  if (!contact) throw notFound('contact_not_found', 'There is no contact with this address on the list.')
  return { contact, list }
}

/** Deletes a contact permanently, with its waiting mail. It may be added again. Throws 404. */
export const removeContact = (app: App, actor: Actor, listId: string, email: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const { contact, list } = getContact(tx.db, actor.accountId, listId, email)
    cancelSubscriptionMails(tx, contact.id)
    deleteContact(tx, contact)
    auditContact(app, tx, actor, 'deleted', contact, list)
  })

/** Replaces the metadata of a contact. Throws 404, and 422 when it is too large. */
export function changeContact(
  app: App,
  actor: Actor,
  listId: string,
  email: string,
  metadata: ContactInput['metadata'],
): Promise<{ contact: Contact; list: ContactList }> {
  const json = toMetadataJson(metadata)
  return app.commit.write((tx) => {
    const before = getContact(tx.db, actor.accountId, listId, email)
    storeWithinPlan(app, tx, actor.accountId, () => setContactMetadata(tx, before.contact.id, json))
    auditContact(app, tx, actor, 'updated', before.contact, before.list)
    return getContact(tx.db, actor.accountId, listId, email)
  })
}

/**
 * Deletes the contacts of deleted lists; returns how many lists are empty now. Call it every minute or so, one run at a
 * time: it continues where the last one stopped.
 * @param ending once it is aborted, no further batch is started
 */
export async function removeDeletedLists(app: App, ending?: AbortSignal): Promise<number> {
  let emptied = 0
  for (let after = 0; ; ) {
    const list = findDeletedListAfter(app.db, after)
    if (!list) return emptied
    after = list.id
    do {
      await yieldToEventLoop()
      if (ending?.aborted) return emptied
    } while (!(await app.commit.writeFromReserve((tx) => removeBatch(app, tx, list.id))))
    app.log.info({ list: formatUuid(list.uuid) }, 'contacts of a deleted list removed')
    emptied++
  }
}

/** Deletes a batch; true when nothing is left. */
function removeBatch(app: App, tx: Tx, listId: number): boolean {
  const ids = deleteContactsOfList(tx, listId, BATCH_SIZE)
  for (const id of ids) cancelSubscriptionMails(tx, id)
  if (ids.length === BATCH_SIZE) return false
  markEmptied(app, tx, listId)
  return true
}
