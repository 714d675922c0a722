/** @module Removes rows in batches, one transaction each, so that requests run in between. */
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'

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
