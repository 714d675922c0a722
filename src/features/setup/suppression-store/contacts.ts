/**
 * @module Where contacts and the suppression list depend on each other: the status of a new or returning contact follows the list, and a confirmation
 * takes an unsubscription off it. Never sends anything.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import {
  activateContact,
  type ConfirmationResult,
  type ContactsOfAddress,
  recordOptIn,
  restoreContacts,
  type StoppableContact,
  type StoppedStatus,
} from '#features/setup/contact-store/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { COMPLAINT, EVERY, HARD_BOUNCE, suppressionOf, toSuppressionScopeCode, UNSUBSCRIBE } from './check.ts'
import { unsuppress } from './suppress.ts'
import { suppressionListKey } from './suppression-list-key.ts'

/**
 * Makes a contact active whose confirmation of this time is open, and takes its unsubscription from the list off the suppression list. Whoever had left
 * all lists gets the mail of this one again and nothing else: other lists, and mail of no list, stay stopped. `already` when it is active, `refused` when
 * the link is not the one that was last asked for.
 */
export function confirmContact(app: App, tx: Tx, contactId: number, since: Millis): ConfirmationResult {
  const result = activateContact(app, tx, contactId, since)
  const contact = result === 'confirmed' ? findContactById(tx.db, contactId) : undefined
  if (!contact) return result
  const { accountId, addressKey: address, listId } = contact
  unsuppress(tx, { accountId, address, reason: UNSUBSCRIBE, covers: 'marketing', listId })
  const stopped = suppressionOf(tx.db, { accountId, address, transactional: false, streamId: EVERY, listId })
  if (stopped?.reason === UNSUBSCRIBE) recordOptIn(app, tx, contactId)
  return result
}

interface SuppressionRow {
  readonly covers: number
  readonly listId: number
  readonly reason: string
}

const sql = prepareStatements((db) => ({
  ofEveryStream: db.prepare<SuppressionRow, [number, string]>(
    'SELECT covers, list_id AS listId, reason FROM suppressions WHERE account_id = ? AND address = ? AND stream_id = 0',
  ),
}))

const listSuppressions = (db: Database, { accountId, addressKey }: ContactsOfAddress): readonly SuppressionRow[] =>
  sql(db).ofEveryStream.all(accountId, suppressionListKey(db, accountId, addressKey))

/** Makes contacts of an address that unsubscribed what they were before; see `reinstateContacts`. Returns how many moved. */
export const resubscribeContacts = (app: Pick<App, 'eventTime'>, tx: Tx, which: ContactsOfAddress): number =>
  reinstateContacts(app, tx, which, ['unsubscribed'])

/**
 * Called after something about an address was taken off the suppression list: its contacts in one of these statuses become what the rest of the list
 * says of them, and where it says nothing, what they were: active, or pending where they never confirmed. Returns how many moved.
 */
export function reinstateContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  which: ContactsOfAddress,
  from: readonly StoppedStatus[],
): number {
  // Read for the first contact only: most addresses have none.
  let rows: readonly SuppressionRow[] | undefined
  const stoppedBy = (contact: StoppableContact): StoppedStatus | undefined => {
    rows ??= listSuppressions(tx.db, which)
    return selectStoppedStatus(rows, contact)
  }
  return restoreContacts(app, tx, which, { from, stoppedBy })
}

/** The status that the suppression list gives to an address that is new on a list; undefined: none. */
export const findStoppedStatus = (
  db: Database,
  which: ContactsOfAddress & { readonly listId: number },
): StoppedStatus | undefined =>
  selectStoppedStatus(listSuppressions(db, which), { listId: which.listId, optedInAt: null })

function selectStoppedStatus(
  rows: readonly SuppressionRow[],
  { listId, optedInAt }: StoppableContact,
): StoppedStatus | undefined {
  const has = (covers: number, reason: string, ofList: number): boolean =>
    rows.some((row) => row.covers === covers && row.reason === reason && row.listId === ofList)
  if (has(toSuppressionScopeCode('all'), COMPLAINT, EVERY)) return 'complained'
  if (has(toSuppressionScopeCode('all'), HARD_BOUNCE, EVERY)) return 'bounced'
  const marketing = toSuppressionScopeCode('marketing')
  const isOff = has(marketing, UNSUBSCRIBE, listId) || (optedInAt === null && has(marketing, UNSUBSCRIBE, EVERY))
  return isOff ? 'unsubscribed' : undefined
}
