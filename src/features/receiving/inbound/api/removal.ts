/**
 * @module Removes inbound emails for retention, by age, and for privacy, by person, and finds for privacy which
 * received mail is still queued. A removed email is not sent to webhooks that have not received it yet.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { ContentRef } from '#platform/content/store.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { RemovableInbound } from './inbound-emails.ts'
import { findInboundById, removeInbound } from './inbound-emails.ts'

interface HeaderRow {
  readonly id: number
  readonly accountId: number
  readonly mailFrom: string
  readonly rcptTo: string
  readonly fromAddress: string | null
  readonly toAddresses: string
  readonly fromHeader: string | null
  readonly toHeader: string | null
  readonly ccHeader: string | null
}

const personSql = prepareStatements((db) => ({
  after: db.prepare<HeaderRow, [number, number, number]>(
    `SELECT id, account_id AS accountId, mail_from AS mailFrom, rcpt_to AS rcptTo, from_address AS fromAddress, to_addresses AS toAddresses,
     from_header AS fromHeader, to_header AS toHeader, cc_header AS ccHeader
     FROM inbound_emails INDEXED BY inbound_emails_account WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  newestReceipt: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM inbound_receipts'),
  oldestReceipt: db.prepare<{ id: number | null }, []>('SELECT min(id) AS id FROM inbound_receipts'),
}))

/** Rows scanned in one tick of the event loop: about 5 ms. */
const SCAN_BATCH_SIZE = 1000

/**
 * Scans some inbound emails of an account after a row for those from or to a person. Returns row ids.
 * @param search.isIn whether a header, or JSON of addresses, names the person
 * @returns `next`: where the next scan starts; undefined: all rows were scanned
 */
export function findInboundOfPerson(
  db: Database,
  search: {
    readonly accountId: number
    readonly after: number
    readonly isIn: (header: string) => boolean
    readonly max: number
  },
): { readonly ids: readonly number[]; readonly next: number | undefined } {
  const rows = personSql(db).after.all(search.accountId, search.after, SCAN_BATCH_SIZE)
  const matching = rows.filter(({ id: _, accountId: __, ...texts }) =>
    Object.values(texts).some((text) => text !== null && search.isIn(text)),
  )
  const ids = matching.slice(0, search.max).map(({ id }) => id)
  if (matching.length > search.max) return { ids, next: ids.at(-1) }
  return { ids, next: rows.length < SCAN_BATCH_SIZE ? undefined : rows.at(-1)?.id }
}

/** Deletes inbound emails with their content. Returns their number. */
export function eraseInbound(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  let removed = 0
  for (const id of ids) {
    const email = findInboundById(tx.db, id)
    if (!email) continue
    removeInbound(app, tx, email)
    removed++
  }
  return removed
}

/** Id of the newest queued message; 0: none. */
export const findNewestQueueEntryId = (db: Database): number => personSql(db).newestReceipt.get()?.id ?? 0

/** Whether a message up to this id is still queued. */
export const hasQueueEntryUpTo = (db: Database, lastId: number): boolean =>
  (personSql(db).oldestReceipt.get()?.id ?? Number.POSITIVE_INFINITY) <= lastId

/** The fields of an inbound email that retention needs. */
export interface OldInbound extends RemovableInbound {
  readonly createdAt: Millis
}

const SELECT = `SELECT id, account_id AS accountId, headers_ref AS headersRef, text_ref AS textRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef,
  created_at AS createdAt FROM inbound_emails`

interface OldRow extends Omit<OldInbound, 'attachments'> {
  /** JSON. */
  readonly attachments: string
}

const ageSql = prepareStatements((db) => ({
  after: db.prepare<OldRow, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<OldRow, [number]>(`${SELECT} WHERE id = ?`),
  waiting: db.prepare<{ ref: ContentRef | null }, []>('SELECT min(raw_ref) AS ref FROM inbound_receipts'),
}))

/** Inbound emails after a row id, in order; row ids ascend with created_at. */
export const listInboundAfter = (db: Database, id: number, limit: number): OldInbound[] =>
  ageSql(db).after.all(id, limit).map(toOldInbound)

export function findOldInbound(db: Database, id: number): OldInbound | undefined {
  const row = ageSql(db).byId.get(id)
  return row ? toOldInbound(row) : undefined
}

/** The oldest queued raw message; undefined: none. */
export const findOldestWaitingRef = (db: Database): ContentRef | undefined => ageSql(db).waiting.get()?.ref ?? undefined

const toOldInbound = (row: OldRow): OldInbound => ({
  ...row,
  attachments: JSON.parse(row.attachments) as OldInbound['attachments'],
})
