/** @module Writes the contacts of a list as CSV, slice by slice as the client takes them: the whole is never held in memory. */
import type { Database } from 'bun:sqlite'
import type { ContactStatus } from '#features/setup/contact-store/status.ts'
import { contactStatusCode, contactStatusName } from '#features/setup/contact-store/status.ts'
import { prepared } from '#platform/db/open.ts'
import { KiB } from '#platform/units.ts'
import { EXPORT_HEADER, exportLines } from './csv.ts'

/** Rows read and written at once: some 3 ms, unless their metadata is long; then as many as have so much of it together. */
const SLICE = 500
const SLICE_CHARACTERS = 256 * KiB

interface Row {
  readonly id: number
  readonly email: string
  readonly status: number
  readonly subscribedAt: number
  readonly unsubscribedAt: number | null
  readonly createdAt: number
  readonly metadata: string | null
}

const COLUMNS = `id, coalesce(email, address_key) AS email, status, subscribed_at AS subscribedAt, unsubscribed_at AS unsubscribedAt,
  created_at AS createdAt, metadata`

const sql = prepared((db) => ({
  after: db.prepare<Row, [number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_list WHERE list_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  afterOfStatus: db.prepare<Row, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_status WHERE list_id = ? AND status = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
}))

/** The file of a list, oldest contact first, in pieces that are read when they are asked for. What changes meanwhile may be in it or not. */
export function* exportPieces(db: Database, listId: number, status?: ContactStatus): Generator<Uint8Array> {
  yield Buffer.from(EXPORT_HEADER)
  for (let after = 0; ; ) {
    const rows = sliceOf(
      status === undefined
        ? sql(db).after.iterate(listId, after, SLICE)
        : sql(db).afterOfStatus.iterate(listId, contactStatusCode(status), after, SLICE),
    )
    const last = rows.at(-1)
    if (!last) return
    yield Buffer.from(exportLines(rows.map((row) => ({ ...row, status: contactStatusName(row.status) }))))
    after = last.id
  }
}

/** The first of the rows; the others are not read. */
function sliceOf(rows: Iterable<Row>): Row[] {
  const slice: Row[] = []
  let characters = 0
  for (const row of rows) {
    slice.push(row)
    characters += row.metadata?.length ?? 0
    if (characters >= SLICE_CHARACTERS) break
  }
  return slice
}
