/**
 * @module Reads contact lists: one by id, a page of an account's lists, and the name of one that may be deleted. Never
 * writes; `change-list.ts` does.
 */
import type { Database } from 'bun:sqlite'
import { newestFirst, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import type { contactLists } from './tables.ts'

export type ContactList = Readonly<Omit<typeof contactLists.$inferSelect, 'deletedAt' | 'emptiedAt'>>

type Row = Omit<ContactList, 'doubleOptIn' | 'welcomeEnabled'> & { doubleOptIn: number; welcomeEnabled: number }

/** A contact list as listed: without long bodies. */
export interface ListedContactList extends ContactList {
  /** Whether a long body is omitted. */
  readonly isTruncated: boolean
}

/** Larger bodies are omitted, because a page has up to a hundred lists. */
export const MAX_LISTED_BYTES = 64 * KiB

const COLUMNS = `id, uuid, account_id AS accountId, name, description, double_opt_in AS doubleOptIn, welcome_enabled AS welcomeEnabled,
  welcome_delay_seconds AS welcomeDelaySeconds, welcome_from AS welcomeFrom, welcome_subject AS welcomeSubject,
  welcome_template_id AS welcomeTemplateId, created_at AS createdAt, updated_at AS updatedAt`
const BODIES = 'welcome_html AS welcomeHtml, welcome_text AS welcomeText'
const isLongSql = (column: string): string => `coalesce(octet_length(${column}), 0) > ${MAX_LISTED_BYTES}`
const LISTED_BODIES = `CASE WHEN ${isLongSql('welcome_html')} THEN NULL ELSE welcome_html END AS welcomeHtml,
  CASE WHEN ${isLongSql('welcome_text')} THEN NULL ELSE welcome_text END AS welcomeText,
  (${isLongSql('welcome_html')} OR ${isLongSql('welcome_text')}) AS isTruncated`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM contact_lists WHERE uuid = ? AND account_id = ? AND deleted_at IS NULL`,
  ),
  byName: db.prepare<Row, [number, string]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM contact_lists WHERE account_id = ? AND name = ? AND deleted_at IS NULL`,
  ),
  byId: db.prepare<Row, [number]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM contact_lists WHERE id = ? AND deleted_at IS NULL`,
  ),
  // Uses the index of existing rows, so that deleted rows are not scanned, however many there are.
  list: newestFirst<Row & { isTruncated: number }, [number]>(
    db,
    `SELECT ${COLUMNS}, ${LISTED_BODIES} FROM contact_lists`,
    'contact_lists INDEXED BY contact_lists_name WHERE account_id = ? AND deleted_at IS NULL',
  ),
  rowOf: db.prepare<{ id: number }, [Uint8Array, number]>(
    'SELECT id FROM contact_lists WHERE uuid = ? AND account_id = ?',
  ),
  uuidOf: db.prepare<{ uuid: Uint8Array; name: string; isDeleted: number }, [number, number]>(
    'SELECT uuid, name, deleted_at IS NOT NULL AS isDeleted FROM contact_lists WHERE id = ? AND account_id = ?',
  ),
}))

const toContactList = (row: Row): ContactList => ({
  ...row,
  doubleOptIn: row.doubleOptIn !== 0,
  welcomeEnabled: row.welcomeEnabled !== 0,
})

/** The account's list with this id; throws 404 `contact_list_not_found`. */
export function getList(db: Database, accountId: number, id: string): ContactList {
  const row = sql(db).byUuid.get(parseUuidParam(id, 'contact_list_not_found', 'contact list'), accountId)
  if (!row) throw notFoundById('contact_list_not_found', 'contact list')
  return toContactList(row)
}

/** The list with a row id; undefined when it was deleted. */
export function findListById(db: Database, rowId: number): ContactList | undefined {
  const row = sql(db).byId.get(rowId)
  return row ? toContactList(row) : undefined
}

/** The account's list with a name. */
export function findListByName(db: Database, accountId: number, name: string): ContactList | undefined {
  const row = sql(db).byName.get(accountId, name)
  return row ? toContactList(row) : undefined
}

/** A page of the account's lists, newest first. */
export function listContactLists(db: Database, accountId: number, page: RowWindow) {
  const { rows, total } = sql(db).list(page, accountId)
  const lists = rows.map((row): ListedContactList => ({ ...toContactList(row), isTruncated: row.isTruncated !== 0 }))
  return { lists, total }
}

/** Row id of the account's list with a public id, deleted ones included. */
export function findListRowId(db: Database, accountId: number, id: string): number | undefined {
  const uuid = parseUuid(id)
  return uuid && sql(db).rowOf.get(uuid, accountId)?.id
}

/** Name and public id of a list, deleted ones included; undefined when the account never had it. */
export function namedList(
  db: Database,
  accountId: number,
  rowId: number,
): { readonly uuid: UuidBytes; readonly name: string; readonly isDeleted: boolean } | undefined {
  const row = sql(db).uuidOf.get(rowId, accountId)
  return row ? { uuid: row.uuid, name: row.name, isDeleted: row.isDeleted !== 0 } : undefined
}
