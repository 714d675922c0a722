/** @module Reads contacts. Never writes. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { type ContactStatus, readContactCount, toContactStatus, toContactStatusCode } from './status.ts'

export interface Contact {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly listId: number
  /** Lower case, domain in A-labels. */
  readonly addressKey: string
  /** As it was submitted. */
  readonly email: string
  /** JSON object; null: empty. */
  readonly metadata: string | null
  readonly status: ContactStatus
  readonly subscribedAt: Millis
  readonly unsubscribedAt: Millis | null
  readonly welcomeSentAt: Millis | null
  /** Time of the open confirmation request; null when none is open. */
  readonly confirmingSince: Millis | null
  /**
   * When the contact last confirmed; equal to `createdAt` if it was added as active and never confirmed. Null: it was
   * never active.
   */
  readonly confirmedAt: Millis | null
  readonly createdAt: Millis
}

type Row = Omit<Contact, 'status'> & { readonly status: number }

const COLUMNS = `id, uuid, account_id AS accountId, list_id AS listId, address_key AS addressKey, coalesce(email, address_key) AS email, metadata, status,
  subscribed_at AS subscribedAt, unsubscribed_at AS unsubscribedAt, welcome_sent_at AS welcomeSentAt, confirming_since AS confirmingSince,
  confirmed_at AS confirmedAt, created_at AS createdAt`

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM contacts WHERE id = ?`),
  // The index begins with the account id, so the query looks it up from the list.
  byAddress: db.prepare<Row, [number, string, number]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = (SELECT account_id FROM contact_lists WHERE id = ?) AND address_key = ? AND list_id = ?`,
  ),
  page: db.prepare<Row, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_list WHERE list_id = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  pageOfStatus: db.prepare<Row, [number, number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_status WHERE list_id = ? AND status = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
}))

const toContact = (row: Row): Contact => ({ ...row, status: toContactStatus(row.status) })

/** The contact of a list with this address, in any spelling. */
export function findContact(db: Database, listId: number, email: string): Contact | undefined {
  const row = sql(db).byAddress.get(listId, normaliseAddress(email), listId)
  return row ? toContact(row) : undefined
}

/** The contact with a row id. Its list may be deleted. */
export function findContactById(db: Database, id: number): Contact | undefined {
  const row = sql(db).byId.get(id)
  return row ? toContact(row) : undefined
}

export interface ContactFilter {
  readonly status?: ContactStatus | undefined
  /** In any spelling. */
  readonly email?: string | undefined
}

/** A page of a list's contacts, newest first, with the number of contacts that match the filter. */
export function listContacts(
  db: Database,
  list: { readonly id: number; readonly accountId: number },
  { status, email }: ContactFilter,
  page: RowWindow,
): { contacts: Contact[]; total: number } {
  const { limit, offset } = page
  if (email !== undefined) {
    const contact = findContact(db, list.id, email)
    const found = contact && (status === undefined || contact.status === status) ? [contact] : []
    return { contacts: found.slice(offset, offset + limit), total: found.length }
  }
  const total = readContactCount(db, list.accountId, list.id, status)
  // Returns early past the end, because SQLite scans every skipped row.
  if (offset >= total) return { contacts: [], total }
  const rows =
    status === undefined
      ? sql(db).page.all(list.id, belowId(page), limit, offset)
      : sql(db).pageOfStatus.all(list.id, toContactStatusCode(status), belowId(page), limit, offset)
  return { contacts: rows.map(toContact), total }
}
