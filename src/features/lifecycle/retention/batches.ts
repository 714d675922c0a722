/**
 * @module Removes rows in batches, one transaction each, so that requests run in between. Adapts the rows of a batch to
 * the speed of this disk and cache, so that a transaction takes some milliseconds.
 */
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'

/** Target duration of a transaction, because requests wait for it. The commit comes on top. */
const TARGET_MS = 2.5
const MIN_ROWS = 10
const MAX_ROWS = 500
const FIRST_ROWS = 50

/** Limits of the change from one transaction to the next. */
const MIN_SCALE = 0.6
const MAX_SCALE = 1.5

const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value))

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
  { clock, commit }: Pick<App, 'clock' | 'commit'>,
  signal: AbortSignal,
  remove: (tx: Tx, limit: number, from: number) => Batch,
): Promise<number> {
  let rows = FIRST_ROWS
  let done = 0
  for (let from: number | undefined = 0; from !== undefined && !signal.aborted; ) {
    const start: number = from
    const batch = await commit.writeFromReserve((tx) => {
      const beganMs = clock.monotonicMs()
      const removed = remove(tx, rows, start)
      const tookMs = clock.monotonicMs() - beganMs
      // Without progress of the clock, the duration says nothing. One slow transaction says little, because other work
      // shares the machine; so the change is limited.
      if (tookMs > 0)
        rows = Math.round(clamp(rows * clamp(TARGET_MS / tookMs, MIN_SCALE, MAX_SCALE), MIN_ROWS, MAX_ROWS))
      return removed
    })
    done += batch.done
    from = batch.next
    await yieldToEventLoop()
  }
  return done
}
