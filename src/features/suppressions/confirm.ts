/** @module What confirming a contact does: it becomes active, and whoever had unsubscribed from its list no longer is. Never sends anything. */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { contactById } from '../contacts/find.ts'
import { activateContact, type Confirmation, settledLists } from '../contacts/status.ts'
import { UNSUBSCRIBE } from './check.ts'
import { suppress, unsuppress } from './suppress.ts'

/**
 * Makes a contact active whose confirmation of this time is open, and takes its unsubscriptions from the list and from all lists off the suppression
 * list. Whoever had left all lists has then left the others that they are on, each for itself. `already` when it is active, `refused` when the link is
 * not the one that was last asked for.
 */
export function confirmContact(app: App, tx: Tx, contactId: number, since: Millis): Confirmation {
  const result = activateContact(app, tx, contactId, since)
  const contact = result === 'confirmed' ? contactById(tx.db, contactId) : undefined
  if (!contact) return result
  const { accountId, addressKey, listId } = contact
  const unsubscription = { accountId, address: addressKey, reason: UNSUBSCRIBE, covers: 'marketing' } as const
  unsuppress(tx, { ...unsubscription, listId })
  if (unsuppress(tx, unsubscription)) {
    for (const other of settledLists(tx.db, { accountId, addressKey }))
      if (other !== listId) suppress(app, tx, { ...unsubscription, listId: other })
  }
  return result
}
