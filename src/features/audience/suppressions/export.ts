/** @module Exports a suppression list as CSV, slice by slice as the client takes it: the whole is never held in memory. */

import type { App } from '#features/core/app/app.ts'
import { createFairYield } from '#platform/clock.ts'
import { seconds } from '#platform/units.ts'
import { CSV_HEADER, formatRows } from './csv.ts'
import { listSuppressionsAfter } from './suppressions.ts'

/** Rows read and written at once: some 1 ms. */
const BATCH_SIZE = 250
/** A client that takes nothing for so long is gone. */
const STALL_MS = seconds(60)

/** However many files are written at once, each slice has a turn of the event loop of its own. */
const yieldFairly = createFairYield()

export interface ExportBatch {
  readonly csv: string
  /** Where the next slice begins; undefined at the end. */
  readonly next: number | undefined
}

/** The rows after a place, oldest first; from 0 with the header. */
export function readExportBatch(app: Pick<App, 'db'>, accountId: number, after: number): ExportBatch {
  const rows = listSuppressionsAfter(app.db, accountId, after, BATCH_SIZE)
  const csv = (after === 0 ? CSV_HEADER : '') + (rows.length > 0 ? formatRows(rows) : '')
  return { csv, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}

/**
 * The file as a stream. What changes while it is read may be in it or not.
 * @param on.isRevoked whether the client may have no more of it
 * @param on.cut called then, and when the client has taken nothing for a while; ends its connection
 * @param on.end called with the last of it
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
        // A client that takes all at once would keep the event loop to itself.
        await yieldFairly()
        if (on.isRevoked()) {
          on.onCut()
          return controller.error(new Error('the export is over'))
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
