/**
 * @module Writes the contacts of a list as CSV in batches, as fast as the client reads them: the whole file is never
 * held in memory.
 */
import type { Database } from 'bun:sqlite'
import type { ContactStatus } from '#features/setup/contact-store/status.ts'
import { toContactStatus, toContactStatusCode } from '#features/setup/contact-store/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { KiB } from '#platform/units.ts'
import { EXPORT_HEADER, formatExportLines } from './csv.ts'

/** Rows read and written at a time: about 3 ms. Fewer if their metadata is long. */
const BATCH_SIZE = 500
const MAX_BATCH_METADATA_LENGTH = 256 * KiB

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
    const rows = takeBatch(
      status === undefined
        ? sql(db).after.iterate(listId, after, BATCH_SIZE)
        : sql(db).afterOfStatus.iterate(listId, toContactStatusCode(status), after, BATCH_SIZE),
    )
    const last = rows.at(-1)
    if (!last) return
    yield Buffer.from(formatExportLines(rows.map((row) => ({ ...row, status: toContactStatus(row.status) }))))
    after = last.id
  }
}

/** Takes rows until their metadata is long enough for a batch; does not read the rows after these. */
function takeBatch(rows: Iterable<Row>): Row[] {
  const batch: Row[] = []
  let characters = 0
  for (const row of rows) {
    batch.push(row)
    characters += row.metadata?.length ?? 0
    if (characters >= MAX_BATCH_METADATA_LENGTH) break
  }
  return batch
}
