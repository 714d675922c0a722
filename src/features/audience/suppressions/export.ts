/** @module Exports a suppression list as CSV in batches: the whole list is never held in memory. */
import type { App } from '#features/core/app/app.ts'
import { CSV_HEADER, formatRows } from './csv.ts'
import { listSuppressionsAfter } from './suppressions.ts'

/** Rows read and written at a time: about 1 ms. */
const BATCH_SIZE = 250

export interface ExportBatch {
  readonly csv: string
  /** Where the next batch begins; undefined at the end. */
  readonly next: number | undefined
}

/** The rows after a position, oldest first; from 0 with the header. */
export function readExportBatch({ db }: Pick<App, 'db'>, accountId: number, after: number): ExportBatch {
  const rows = listSuppressionsAfter(db, accountId, after, BATCH_SIZE)
  const csv = (after === 0 ? CSV_HEADER : '') + formatRows(rows)
  return { csv, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}

/** The file in chunks that are read on demand. Concurrent changes may or may not be included. */
export function* exportChunks(app: Pick<App, 'db'>, accountId: number): Generator<Uint8Array> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const batch: ExportBatch = readExportBatch(app, accountId, after)
    yield Buffer.from(batch.csv)
    after = batch.next
  }
}
