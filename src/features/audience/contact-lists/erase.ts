/**
 * @module Removes a person from all lists of an account, in the caller's transaction, with their waiting mail and the
 * records of their form submissions; and reports whether a file that may contain them is still being imported.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findContactsOf } from '#features/setup/contact-store/find.ts'
import { deleteContact } from '#features/setup/contact-store/status.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { eraseMailboxSubmissions, eraseSubmissions, type Person } from './form-submissions.ts'
import { cancelSubscriptionMails } from './subscription-mails.ts'

const sql = prepareStatements((db) => ({
  lists: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT id FROM contact_lists WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?',
  ),
  newestImport: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM contact_imports'),
  waitingImport: db.prepare<{ id: number }, [number, number]>(
    'SELECT id FROM contact_imports WHERE account_id = ? AND id <= ? LIMIT 1',
  ),
}))

/** Deletes the contacts of an address in all lists of an account, at most one per list. Returns how many. */
export function eraseContacts(tx: Tx, { accountId, addressKey }: Person): number {
  const contacts = findContactsOf(tx.db, accountId, addressKey)
  for (const { id } of contacts) {
    cancelSubscriptionMails(tx, id)
    deleteContact(tx, { id })
  }
  return contacts.length
}

/** Lists whose form submissions are erased per transaction: about 3 ms. */
const BATCH_SIZE = 200

/**
 * Deletes the submissions of an address to the forms of the next lists with a higher row id than `after`. The first
 * call also deletes the count of mail for the address's mailbox.
 * @returns `next`: where to continue; undefined when all lists are done
 */
export function eraseFormSubmissions(
  app: Pick<App, 'keys'>,
  tx: Tx,
  person: Person,
  after: number,
): { readonly rows: number; readonly next: number | undefined } {
  const lists = sql(tx.db).lists.all(person.accountId, after, BATCH_SIZE)
  const submissionRows = lists.reduce((sum, { id }) => sum + eraseSubmissions(app, tx, { ...person, listId: id }), 0)
  const mailboxRows = after === 0 ? eraseMailboxSubmissions(app, tx, person) : 0
  return { rows: submissionRows + mailboxRows, next: lists.length < BATCH_SIZE ? undefined : lists.at(-1)?.id }
}

/** Row id of the newest unfinished import; 0: there is none. */
export const findNewestImport = (db: Database): number => sql(db).newestImport.get()?.id ?? 0

/** Whether an import of the account, up to this row id, is unfinished. */
export const isImportOpen = (db: Database, accountId: number, upTo: number): boolean =>
  sql(db).waitingImport.get(accountId, upTo) !== null
