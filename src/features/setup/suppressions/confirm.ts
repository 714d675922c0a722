/** @module What confirming a contact does: it becomes active, and whoever had unsubscribed from its list no longer is. Never sends anything. */
import type { App } from '#features/core/app/app.ts'
import { contactById } from '#features/setup/contact-store/find.ts'
import { activateContact, type Confirmation, optIn } from '#features/setup/contact-store/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { EVERY, suppressionOf, UNSUBSCRIBE } from './check.ts'
import { unsuppress } from './suppress.ts'

/**
 * Makes a contact active whose confirmation of this time is open, and takes its unsubscription from the list off the suppression list. Whoever had left
 * all lists gets the mail of this one again and nothing else: other lists, and mail of no list, stay stopped. `already` when it is active, `refused` when
 * the link is not the one that was last asked for.
 */
export function confirmContact(app: App, tx: Tx, contactId: number, since: Millis): Confirmation {
  const result = activateContact(app, tx, contactId, since)
  const contact = result === 'confirmed' ? contactById(tx.db, contactId) : undefined
  if (!contact) return result
  const { accountId, addressKey: address, listId } = contact
  unsuppress(tx, { accountId, address, reason: UNSUBSCRIBE, covers: 'marketing', listId })
  const stopped = suppressionOf(tx.db, { accountId, address, transactional: false, streamId: EVERY, listId })
  if (stopped?.reason === UNSUBSCRIBE) optIn(app, tx, contactId)
  return result
}
