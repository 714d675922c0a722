/** @module Exports a suppression list as CSV in batches: the whole list is never held in memory. */
import type { App } from '#features/core/app/app.ts'
import { CSV_HEADER, formatRows } from './csv.ts'
import { listSuppressionsAfter } from './suppressions.ts'

/** Rows read and written at a time: about 1 ms. */
const BATCH_SIZE = 250

/** The file in chunks that are read on demand, oldest first. Concurrent changes may or may not be included. */
export function* exportChunks({ db }: Pick<App, 'db'>, accountId: number): Generator<Uint8Array> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const rows = listSuppressionsAfter(db, accountId, after, BATCH_SIZE)
    yield Buffer.from((after === 0 ? CSV_HEADER : '') + formatRows(rows))
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id
  }
}
