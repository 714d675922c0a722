/**
 * @module Writes the contacts of a list as CSV in batches, as fast as the client reads them: the whole file is never
 * held in memory.
 */
import type { Database } from 'bun:sqlite'
import type { Contact } from '#features/setup/contact-store/find.ts'
import { type ContactStatus, toContactStatus, toContactStatusCode } from '#features/setup/contact-store/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { EXPORT_HEADER, formatExportLines } from './csv.ts'

/** Rows read and written at a time: below 1 ms, and at most 1.6 MB of metadata. */
const BATCH_SIZE = 100

type Row = Pick<Contact, 'id' | 'email' | 'subscribedAt' | 'unsubscribedAt' | 'createdAt' | 'metadata'> & {
  readonly status: number
}

const COLUMNS = `id, coalesce(email, address_key) AS email, status, subscribed_at AS subscribedAt, unsubscribed_at AS unsubscribedAt,
  created_at AS createdAt, metadata`

const sql = prepareStatements((db) => ({
  after: db.prepare<Row, [number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_list WHERE list_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  afterOfStatus: db.prepare<Row, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_status WHERE list_id = ? AND status = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
}))

/** The file of a list, oldest contact first. Concurrent changes may or may not be included. */
export function* exportChunks(db: Database, listId: number, status?: ContactStatus): Generator<Uint8Array> {
  yield Buffer.from(EXPORT_HEADER)
  for (let after = 0; ; ) {
    const rows =
      status === undefined
        ? sql(db).after.all(listId, after, BATCH_SIZE)
        : sql(db).afterOfStatus.all(listId, toContactStatusCode(status), after, BATCH_SIZE)
    const last = rows.at(-1)
    if (!last) return
    yield Buffer.from(formatExportLines(rows.map((row) => ({ ...row, status: toContactStatus(row.status) }))))
    after = last.id
  }
}
