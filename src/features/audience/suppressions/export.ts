/**
 * @module Exports a suppression list as CSV in batches, as fast as the client reads them: the whole list is never held
 * in memory.
 */

import type { App } from '#features/core/app/app.ts'
import { createFairYield } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { CSV_HEADER, formatRows } from './csv.ts'
import { listSuppressionsAfter } from './suppressions.ts'

/** Rows read and written at a time: about 1 ms. */
const BATCH_SIZE = 250
/** A client that has read nothing for this long is taken as disconnected. */
const STALL_MS = seconds(60)

/** However many files are written at the same time, each batch gets its own tick of the event loop. */
const yieldFairly = createFairYield()

export interface ExportBatch {
  readonly csv: string
  /** Where the next batch begins; undefined at the end. */
  readonly next: number | undefined
}

/** The rows after a position, oldest first; from 0 with the header. */
export function readExportBatch(app: Pick<App, 'db'>, accountId: number, after: number): ExportBatch {
  const rows = listSuppressionsAfter(app.db, accountId, after, BATCH_SIZE)
  const csv = (after === 0 ? CSV_HEADER : '') + (rows.length > 0 ? formatRows(rows) : '')
  return { csv, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}

/**
 * The file as a stream. Concurrent changes may or may not be included.
 * @param on.isRevoked whether the client has lost its access
 * @param on.onCut called when the client has lost its access, or has read nothing for a while; ends its connection
 * @param on.onEnded called with the last chunk
 */
export function createExportStream(
  app: Pick<App, 'db' | 'clock'>,
  accountId: number,
  on: { isRevoked(): boolean; onCut(): void; onEnded(): void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let after = 0
  let stall = app.clock.after(STALL_MS, on.onCut)
  return new ReadableStream(
    {
      async pull(controller) {
        stall.cancel()
        // A client that reads everything immediately would block the event loop.
        await yieldFairly()
        if (on.isRevoked()) {
          on.onCut()
          return controller.error(new Error('the export was cut off'))
        }
        const { csv, next } = readExportBatch(app, accountId, after)
        if (csv !== '') controller.enqueue(encoder.encode(csv))
        if (next === undefined) {
          on.onEnded()
          return controller.close()
        }
        after = next
        stall = app.clock.after(STALL_MS, on.onCut)
      },
      cancel: () => stall.cancel(),
    },
    { highWaterMark: 0 },
  )
}
