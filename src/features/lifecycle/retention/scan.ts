/**
 * @module Scans a table from its oldest row, a few rows per transaction, and stores its cursor, so that a restart
 * continues there. Rows that are old enough but still open are recorded and checked again in each run. Rows to remove
 * for size do not come from a scan: the caller passes their row ids, and after a restart they are measured again. The
 * only writer of `retention_left`.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'

/** The stored code of a scan is its position, so only append. */
export const SCANS = [
  'content',
  'broadcast content',
  'emails',
  'broadcasts',
  'operations',
  'inbound',
  'mailboxes',
] as const
export type ScanName = (typeof SCANS)[number]

export interface OldRow {
  readonly id: number
  readonly createdAt: Millis
}

export interface Scan<Row extends OldRow> {
  readonly name: ScanName
  /** Rows after a row id, sorted by id; created_at has the same order. */
  after(db: Database, id: number, limit: number): readonly Row[]
  byId(db: Database, id: number): Row | undefined
  /** Retires a row from before the given time; returns false if it is too early. */
  retire(app: App, tx: Tx, row: Row, before: Millis): boolean
  /** Whether a row may be removed only for its age, never for size; omitted: every row may be removed for size. */
  isKept?(row: Row): boolean
}

const sql = prepareStatements((db) => ({
  left: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT row_id AS id FROM retention_left WHERE kind = ? AND row_id > ? ORDER BY row_id LIMIT ?',
  ),
  note: db.prepare('INSERT INTO retention_left (kind, row_id) VALUES (?, ?) ON CONFLICT DO NOTHING'),
  settle: db.prepare('DELETE FROM retention_left WHERE kind = ? AND row_id = ?'),
}))

const cursorKey = (name: ScanName): string => `retention:cursor:${name}`

/** Row id of the last scanned row. */
export const readCursor = (db: Database, name: ScanName): number => Number(getMeta(db, cursorKey(name)) ?? 0)

/** Retires all due rows from before a time; resolves with their number. */
export async function scanRows<Row extends OldRow>(
  app: App,
  scan: Scan<Row>,
  before: Millis,
  signal: AbortSignal,
): Promise<number> {
  const retried = await removeInBatches(app, signal, (tx, limit, from) =>
    retryLeftRows(app, tx, scan, before, from, limit),
  )
  return retried + (await removeInBatches(app, signal, (tx, limit) => scanNext(app, tx, scan, before, limit)))
}

/** Retires excess rows of an account, except those that changed after the given time; resolves with their number. */
export const retireByIds = <Row extends OldRow>(
  app: App,
  scan: Scan<Row>,
  { ids, before }: { readonly ids: readonly number[]; readonly before: Millis },
  signal: AbortSignal,
): Promise<number> =>
  removeInBatches(app, signal, (tx, limit, from) => {
    const rows = ids.slice(from, from + limit).map((id) => scan.byId(tx.db, id))
    const retired = rows.filter((row) => row && !scan.isKept?.(row) && scan.retire(app, tx, row, before))
    return { done: retired.length, next: from + limit < ids.length ? from + limit : undefined }
  })

/** Retries recorded rows. */
function retryLeftRows<Row extends OldRow>(
  app: App,
  tx: Tx,
  scan: Scan<Row>,
  before: Millis,
  after: number,
  limit: number,
): Batch {
  const kind = SCANS.indexOf(scan.name)
  const noted = sql(tx.db).left.all(kind, after, limit)
  let done = 0
  for (const { id } of noted) {
    const row = scan.byId(tx.db, id)
    if (row && (row.createdAt >= before || !scan.retire(app, tx, row, before))) continue
    sql(tx.db).settle.run(kind, id)
    if (row) done++
  }
  return { done, next: noted.length < limit ? undefined : noted.at(-1)?.id }
}

/** Scans rows after the cursor. */
function scanNext<Row extends OldRow>(app: App, tx: Tx, scan: Scan<Row>, before: Millis, limit: number): Batch {
  const cursor = readCursor(tx.db, scan.name)
  const rows = scan.after(tx.db, cursor, limit)
  let done = 0
  let last = cursor
  for (const row of rows) {
    if (row.createdAt >= before) break
    if (scan.retire(app, tx, row, before)) done++
    else sql(tx.db).note.run(SCANS.indexOf(scan.name), row.id)
    last = row.id
  }
  if (last !== cursor) setMeta(tx.db, cursorKey(scan.name), String(last))
  return { done, next: rows.length === limit && last === rows.at(-1)?.id ? last : undefined }
}

/** Rows per transaction: some milliseconds for emails, the largest rows, because requests wait for it. */
const BATCH_SIZE = 50

export interface Batch {
  /** Rows removed. */
  readonly done: number
  /** Where the next batch continues; undefined at the end. */
  readonly next: number | undefined
}

/**
 * Removes batches until none is left, or `signal` is aborted; resolves with the number of rows removed.
 * @param remove removes at most `limit` rows; `from` is 0, or where the batch before said that it continues
 */
export async function removeInBatches(
  { commit }: Pick<App, 'commit'>,
  signal: AbortSignal,
  remove: (tx: Tx, limit: number, from: number) => Batch,
): Promise<number> {
  let done = 0
  for (let from: number | undefined = 0; from !== undefined && !signal.aborted; ) {
    const start: number = from
    const batch = await commit.writeFromReserve((tx) => remove(tx, BATCH_SIZE, start))
    done += batch.done
    from = batch.next
    await yieldToEventLoop()
  }
  return done
}
