/** @module Reads contacts. Never writes. */
import type { Database } from 'bun:sqlite'
import { aboveText, belowId, prepareStatements, type RowKey, type RowWindow } from '#platform/db/open.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import {
  CONTACT_STATUSES,
  type ContactStatus,
  readContactCount,
  toContactStatus,
  toContactStatusCode,
} from './status.ts'
import type { contacts } from './tables.ts'

type Row = Readonly<Omit<typeof contacts.$inferSelect, 'email' | 'optedInAt'>> & {
  /** The address as it was submitted. */
  readonly email: string
}
export type Contact = Omit<Row, 'status'> & { readonly status: ContactStatus }

const COLUMNS = `id, uuid, account_id AS accountId, list_id AS listId, address_key AS addressKey, coalesce(email, address_key) AS email, metadata, status,
  subscribed_at AS subscribedAt, unsubscribed_at AS unsubscribedAt, welcome_sent_at AS welcomeSentAt, confirming_since AS confirmingSince,
  earlier_requests AS earlierRequests, confirmed_at AS confirmedAt, created_at AS createdAt`

/** The list, the first key and the end of the keys, the key before the page, its limit and its offset. */
type SearchValues = [listId: number, start: string, end: string, after: string, limit: number, offset: number]

/**
 * Contacts of some statuses in the order of their addresses. Within one status the index has this order, so SQLite
 * merges one range for each: the time depends on the offset, not on the length of the list.
 */
const selectSearchPage = (statuses: readonly (number | string)[]): string =>
  `SELECT ${COLUMNS} FROM contacts WHERE id IN (SELECT id FROM (${statuses
    .map(
      (status) =>
        `SELECT id, address_key FROM contacts INDEXED BY contacts_search
         WHERE list_id = ?1 AND status = ${status} AND address_key >= ?2 AND address_key < ?3 AND address_key > ?4`,
    )
    .join(' UNION ALL ')} ORDER BY address_key LIMIT ?5 OFFSET ?6)) ORDER BY address_key`

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM contacts WHERE id = ?`),
  // The index begins with the account id, so the query reads this id from the list.
  byAddress: db.prepare<Row, [number, string, number]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = (SELECT account_id FROM contact_lists WHERE id = ?) AND address_key = ? AND list_id = ?`,
  ),
  ofAddress: db.prepare<Row, [number, string]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = ? AND address_key = ? ORDER BY id`,
  ),
  page: db.prepare<Row, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_list WHERE list_id = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  pageOfStatus: db.prepare<Row, [number, number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_status WHERE list_id = ? AND status = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  search: db.prepare<Row, SearchValues>(
    selectSearchPage(CONTACT_STATUSES.map((status) => toContactStatusCode(status))),
  ),
  searchStatus: db.prepare<Row, [...SearchValues, status: number]>(selectSearchPage(['?7'])),
  countFound: db.prepare<{ n: number }, [number, number, string, string, number]>(
    `SELECT COUNT(*) AS n FROM (SELECT 1 FROM contacts INDEXED BY contacts_search WHERE list_id = ? AND status = ? AND address_key >= ?
     AND address_key < ? LIMIT ?)`,
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

/** The contacts with an address, in any spelling; the oldest first. Their lists may be deleted. */
export const findContactsOf = (db: Database, accountId: number, address: string): Contact[] =>
  sql(db).ofAddress.all(accountId, normaliseAddress(address)).map(toContact)

export interface ContactFilter {
  readonly status?: ContactStatus | undefined
  /** The address, in any spelling. */
  readonly email?: string | undefined
  readonly startsWith?: string | undefined
}

/**
 * A page of a list's contacts: newest first, or, for a search, in the order of their addresses. A search counts at
 * most MAX_COUNTED.
 */
export function listContacts(
  db: Database,
  list: { readonly id: number; readonly accountId: number },
  filter: ContactFilter,
  page: RowWindow,
): { readonly contacts: Contact[]; readonly total: number; readonly lastKey: RowKey | undefined } {
  if (filter.startsWith !== undefined) return searchContacts(db, list.id, filter.startsWith, filter.status, page)
  const { contacts, total } = readPage(db, list, filter, page)
  const last = contacts.at(-1)
  return { contacts, total, lastKey: last && [last.id] }
}

/** A search counts this many contacts; counting more would take as long as the list is. */
export const MAX_COUNTED = 10_000
/** Above every character, in the order of SQLite. */
const LAST_CHARACTER = '\u{10ffff}'

function searchContacts(
  db: Database,
  listId: number,
  text: string,
  status: ContactStatus | undefined,
  page: RowWindow,
) {
  const start = toSearchKey(text)
  const end = start + LAST_CHARACTER
  const statuses = status === undefined ? CONTACT_STATUSES : [status]
  const { search, searchStatus, countFound } = sql(db)
  let total = 0
  for (const name of statuses)
    total += countFound.get(listId, toContactStatusCode(name), start, end, MAX_COUNTED - total)?.n ?? 0
  const values: SearchValues = [listId, start, end, aboveText(page), page.limit, page.offset]
  const rows = status === undefined ? search.all(...values) : searchStatus.all(...values, toContactStatusCode(status))
  const last = rows.at(-1)
  return { contacts: rows.map(toContact), total, lastKey: last && [last.addressKey] }
}

/** As addresses are stored: lower case, a whole domain in A-labels. */
function toSearchKey(text: string): string {
  const trimmed = text.trim()
  const domain = trimmed.slice(trimmed.lastIndexOf('@') + 1)
  return trimmed.includes('@') && !isAscii(domain) ? normaliseAddress(trimmed) : trimmed.toLowerCase()
}

const isAscii = (text: string): boolean => /^[\x20-\x7e]*$/.test(text)

function readPage(
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
  // Past the end, SQLite would scan every skipped row in vain.
  if (offset >= total) return { contacts: [], total }
  const rows =
    status === undefined
      ? sql(db).page.all(list.id, belowId(page), limit, offset)
      : sql(db).pageOfStatus.all(list.id, toContactStatusCode(status), belowId(page), limit, offset)
  return { contacts: rows.map(toContact), total }
}
