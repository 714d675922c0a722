/**
 * @module Where contacts and the suppression list depend on each other: the status of a new or returning contact follows the list, and a confirmation
 * takes an unsubscription off it. Never sends anything.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { contactById } from '#features/setup/contact-store/find.ts'
import {
  activateContact,
  type Confirmation,
  type ContactsOfAddress,
  optIn,
  restoreContacts,
  type StoppableContact,
  type Stopped,
} from '#features/setup/contact-store/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { COMPLAINT, coverageCode, EVERY, HARD_BOUNCE, suppressionOf, UNSUBSCRIBE } from './check.ts'
import { listedForm } from './listed-form.ts'
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

interface Suppressed {
  readonly covers: number
  readonly listId: number
  readonly reason: string
}

const sql = prepared((db) => ({
  ofEveryStream: db.prepare<Suppressed, [number, string]>(
    'SELECT covers, list_id AS listId, reason FROM suppressions WHERE account_id = ? AND address = ? AND stream_id = 0',
  ),
}))

const suppressionsOf = (db: Database, { accountId, addressKey }: ContactsOfAddress): readonly Suppressed[] =>
  sql(db).ofEveryStream.all(accountId, listedForm(db, accountId, addressKey))

/** Makes contacts of an address that unsubscribed what they were before; see `bringBackContacts`. Returns how many moved. */
export const resubscribeContacts = (app: Pick<App, 'eventTime'>, tx: Tx, which: ContactsOfAddress): number =>
  bringBackContacts(app, tx, which, ['unsubscribed'])

/**
 * Called after something about an address was taken off the suppression list: its contacts in one of these statuses become what the rest of the list
 * says of them, and where it says nothing, what they were: active, or pending where they never confirmed. Returns how many moved.
 */
export function bringBackContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  which: ContactsOfAddress,
  from: readonly Stopped[],
): number {
  // Read for the first contact only: most addresses have none.
  let rows: readonly Suppressed[] | undefined
  const stoppedBy = (contact: StoppableContact): Stopped | undefined => {
    rows ??= suppressionsOf(tx.db, which)
    return statusUnder(rows, contact)
  }
  return restoreContacts(app, tx, which, { from, stoppedBy })
}

/** The status that the suppression list gives to an address that is new on a list; undefined: none. */
export const stoppedUnder = (
  db: Database,
  which: ContactsOfAddress & { readonly listId: number },
): Stopped | undefined => statusUnder(suppressionsOf(db, which), { listId: which.listId, optedInAt: null })

function statusUnder(rows: readonly Suppressed[], { listId, optedInAt }: StoppableContact): Stopped | undefined {
  const has = (covers: number, reason: string, ofList: number): boolean =>
    rows.some((row) => row.covers === covers && row.reason === reason && row.listId === ofList)
  if (has(coverageCode('all'), COMPLAINT, EVERY)) return 'complained'
  if (has(coverageCode('all'), HARD_BOUNCE, EVERY)) return 'bounced'
  const marketing = coverageCode('marketing')
  const isOff = has(marketing, UNSUBSCRIBE, listId) || (optedInAt === null && has(marketing, UNSUBSCRIBE, EVERY))
  return isOff ? 'unsubscribed' : undefined
}
