/**
 * @module What the routes of this interface share: fields of bodies, references, and lists, which clients page by `limit`,
 * and `after` or `before` the id of an item. Lists are newest first: what is after an item is older.
 */
import type { Database } from 'bun:sqlite'
import { Type } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import { prepareStatements, type RowKey, type RowWindow } from '#platform/db/open.ts'
import { attempt, invalid } from '#platform/errors.ts'
import { OptionalNullable, parseQueryInteger } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import type { Call, Query } from '../dialects/routes.ts'

/** Null counts as missing. */
const REQUIRED = { 'x-null': 'is required' }
export const TEXT = Type.String({ minLength: 1, ...REQUIRED })
export const MAYBE_TEXT = OptionalNullable(Type.String())
export const MAYBE_FLAG = OptionalNullable(Type.Boolean())
/** Names of what a request is about. */
export const TEXTS = Type.Array(Type.String(), { minItems: 1, maxItems: 100, ...REQUIRED })

export const toReference = <Name extends string>(object: Name, { uuid }: { readonly uuid: UuidBytes }) => ({
  object,
  id: formatUuid(uuid),
})

/** Answers a GET of one object. @param find throws when there is none */
export const shows =
  <Row>(
    object: string,
    find: (db: Database, accountId: number, id: string) => Row,
    toItem: (row: Row, app: App) => object,
  ) =>
  ({ app, db, accountId, id }: Call) => ({ object, ...toItem(find(db, accountId, id), app) })

/** Answers a DELETE. @param remove throws when there is no such object */
export const deletes =
  (object: string, remove: (app: App, actor: Actor, id: string) => Promise<unknown>) =>
  async ({ app, actor, id }: Call) => {
    await remove(app, actor, id)
    return { object, id: id.toLowerCase(), deleted: true }
  }

/** A slug or alias of the letters and digits of a name; one that is taken ends in part of an id. */
export function createSlug(name: string, fallback: string, maxLength: number, isTaken: (slug: string) => boolean) {
  const slug = (name.toLowerCase().match(/[a-z0-9]+/g) ?? [fallback]).join('-').slice(0, maxLength - 9)
  return isTaken(slug) ? `${slug}-${formatUuid(newUuid()).slice(-8)}` : slug
}

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100

interface ListSource<Row, Found> {
  /** The row with this id; undefined when there is none. */
  readonly find: (id: string) => Found | undefined
  /** The position of a row; default: its id. */
  readonly keyOf?: (row: Found) => RowKey
  /** Rows after a position, or from the start. */
  readonly listBelow: (window: RowWindow) => readonly Row[]
  /** The rows right before a row, newest first. */
  readonly listAbove: (row: Found, limit: number) => readonly Row[]
}

export interface ListPage<Row> {
  readonly object: 'list'
  readonly has_more: boolean
  readonly data: Row[]
}

/** The highest of the next ids above ?2. */
const prepareTop = (db: Pick<Database, 'prepare'>, rows: string) =>
  db.prepare<{ id: number | null }, [number, number, number]>(
    `SELECT MAX(id) AS id FROM (SELECT id FROM ${rows} AND id > ?2 ORDER BY id LIMIT ?3)`,
  )

const sql = prepareStatements((db) => ({
  contact_lists: prepareTop(db, 'contact_lists WHERE account_id = ?1 AND deleted_at IS NULL'),
  domains: prepareTop(db, 'domains WHERE account_id = ?1 AND deleted_at IS NULL'),
  inbound_emails: prepareTop(db, 'inbound_emails INDEXED BY inbound_emails_account WHERE account_id = ?1'),
  contacts: prepareTop(db, 'contacts INDEXED BY contacts_list WHERE list_id = ?1'),
  newsletters: prepareTop(db, 'newsletters INDEXED BY newsletters_account WHERE account_id = ?1'),
  request_logs: prepareTop(db, 'request_logs WHERE account_id = ?1'),
  templates: prepareTop(db, 'templates WHERE account_id = ?1 AND deleted_at IS NULL'),
}))

interface WithId {
  readonly id: number
}

/**
 * A page of a list by row id that is read in one direction only.
 * @param find throws or returns undefined when there is no such row
 * @param owner row id of the account, for contacts of their list
 */
export function pageOfRows<Row extends WithId, Item>(
  { db, accountId, query }: Call,
  table: keyof ReturnType<typeof sql>,
  find: (db: Database, owner: number, id: string) => WithId | undefined,
  list: (db: Database, owner: number, window: RowWindow) => readonly Row[],
  toItem: (row: Row) => Item,
  owner = accountId,
): ListPage<Item> {
  const source: ListSource<Row, WithId> = {
    find: (id) => attempt(() => find(db, owner, id)),
    listBelow: (window) => list(db, owner, window),
    listAbove({ id: from }, limit) {
      const top = sql(db)[table].get(owner, from, limit)?.id ?? from
      return list(db, owner, { after: [top + 1], offset: 0, limit }).filter(({ id }) => id > from)
    },
  }
  return readPage(query, source, toItem)
}

/** A page of a list. Throws a 422 for a limit or an id that is not valid. */
export function readPage<Row, Item, Found extends { readonly id: number | string }>(
  query: Query,
  { find, keyOf = ({ id }) => [id], listBelow, listAbove }: ListSource<Row, Found>,
  toItem: (row: Row) => Item,
): ListPage<Item> {
  const { after, before } = query
  const limit = parseQueryInteger('limit', query['limit'], { fallback: DEFAULT_LIMIT, minimum: 1, maximum: MAX_LIMIT })
  if (after !== undefined && before !== undefined)
    throw invalid('before', 'after and before cannot be combined; set only one of them.')
  const requireRow = (name: string, id: string): Found => {
    const row = find(id)
    if (!row) throw invalid(name, `${name} must be the id of an item of this list.`)
    return row
  }
  const start = after === undefined ? {} : { after: keyOf(requireRow('after', after)) }
  // One more row than wanted tells whether more follow.
  const rows =
    before === undefined
      ? listBelow({ ...start, offset: 0, limit: limit + 1 })
      : listAbove(requireRow('before', before), limit + 1)
  const page = before === undefined ? rows.slice(0, limit) : rows.slice(-limit)
  return { object: 'list', has_more: rows.length > limit, data: page.map(toItem) }
}

/** A page of a list that was read as a whole, because its length is limited. */
export const pageOf = <Item extends { readonly id: string }>(query: Query, items: readonly Item[]): ListPage<Item> =>
  readPage(
    query,
    {
      find: (id) => items.find((item) => item.id === id.toLowerCase()),
      keyOf: (item) => [items.indexOf(item)],
      listBelow({ after, limit }) {
        const start = after ? Number(after[0]) + 1 : 0
        return items.slice(start, start + limit)
      },
      listAbove: (item, limit) => items.slice(Math.max(0, items.indexOf(item) - limit), items.indexOf(item)),
    },
    (item) => item,
  )
