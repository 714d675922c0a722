/**
 * @module Keeps contacts and the suppression list in step: new and returning contacts get the status that the list
 * implies, and a confirmation removes an unsubscription from it. Never sends anything.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import {
  activateContact,
  type ConfirmationResult,
  type ContactOfList,
  type ContactsOfAddress,
  recordOptIn,
  restoreContacts,
  type StoppableContact,
  type StoppedStatus,
} from '#features/setup/contact-store/status.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { COMPLAINT, EVERY, HARD_BOUNCE, suppressionOf, toSuppressionScopeCode, UNSUBSCRIBE } from './check.ts'
import { unsuppress } from './suppress.ts'
import { suppressionListKey } from './suppression-list-key.ts'
import type { suppressions } from './tables.ts'

/**
 * Activates a contact whose open confirmation request was made at `since`, and removes its unsubscription from this
 * contact list. If the address had left all lists, it gets mail of this list only. Returns `already` when the contact
 * is active. Returns `refused` when the contact is deleted or the link is not from the last request.
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

type SuppressionRow = Readonly<Pick<typeof suppressions.$inferSelect, 'covers' | 'listId' | 'reason'>>

const sql = prepareStatements((db) => ({
  ofEveryStream: db.prepare<SuppressionRow, [number, string]>(
    'SELECT covers, list_id AS listId, reason FROM suppressions WHERE account_id = ? AND address = ? AND stream_id = 0',
  ),
}))

const listSuppressions = (db: Database, { accountId, addressKey }: ContactsOfAddress): readonly SuppressionRow[] =>
  sql(db).ofEveryStream.all(accountId, suppressionListKey(db, accountId, addressKey))

/** Restores unsubscribed contacts of an address; see `reinstateContacts`. Returns how many changed. */
export const resubscribeContacts = (app: Pick<App, 'eventTime'>, tx: Tx, which: ContactsOfAddress): number =>
  reinstateContacts(app, tx, which, ['unsubscribed'])

/**
 * Call it after a suppression of an address was removed. Changes contacts of the address that have one of the `from`
 * statuses. They get the status that the remaining suppressions imply; if these imply none, they become active again,
 * or pending if they never confirmed. Returns how many changed.
 */
export function reinstateContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  which: ContactsOfAddress,
  from: readonly StoppedStatus[],
): number {
  // Read when the first contact needs them, because most addresses have no contacts.
  let rows: readonly SuppressionRow[] | undefined
  const stoppedBy = (contact: StoppableContact): StoppedStatus | undefined => {
    rows ??= listSuppressions(tx.db, which)
    return selectStoppedStatus(rows, contact)
  }
  return restoreContacts(app, tx, which, from, stoppedBy)
}

/** The status that the suppression list implies for a new contact; undefined if none. */
export const findStoppedStatus = (db: Database, which: ContactOfList): StoppedStatus | undefined =>
  selectStoppedStatus(listSuppressions(db, which), { listId: which.listId, optedInAt: null })

function selectStoppedStatus(
  rows: readonly SuppressionRow[],
  { listId, optedInAt }: StoppableContact,
): StoppedStatus | undefined {
  const hasRow = (covers: number, reason: string, ofList: number): boolean =>
    rows.some((row) => row.covers === covers && row.reason === reason && row.listId === ofList)
  if (hasRow(toSuppressionScopeCode('all'), COMPLAINT, EVERY)) return 'complained'
  if (hasRow(toSuppressionScopeCode('all'), HARD_BOUNCE, EVERY)) return 'bounced'
  const marketing = toSuppressionScopeCode('marketing')
  const isOff = hasRow(marketing, UNSUBSCRIBE, listId) || (optedInAt === null && hasRow(marketing, UNSUBSCRIBE, EVERY))
  return isOff ? 'unsubscribed' : undefined
}
