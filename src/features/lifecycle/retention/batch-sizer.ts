/** @module How much is done in one transaction: as many rows as take some milliseconds here, on this disk, with this cache. */
import type { Clock } from '#platform/clock.ts'

/** What one transaction of retention should take: requests wait for it. Its commit comes on top. */
const TARGET_MS = 2.5
const MIN_ROWS = 10
const MAX_ROWS = 500
const FIRST_ROWS = 50

/** From one transaction to the next. */
const MIN_SCALE = 0.6
const MAX_SCALE = 1.5

const clamp = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value))

export interface BatchSizer {
  /** Rows for the next transaction. */
  readonly rows: number
  /** Runs the work of a transaction on so many rows and learns from how long it takes. */
  run<T>(work: () => T): T
}

export function createBatchSizer(clock: Pick<Clock, 'monotonicMs'>): BatchSizer {
  let rows = FIRST_ROWS
  return {
    get rows() {
      return rows
    },
    run(work) {
      const beganMs = clock.monotonicMs()
      const result = work()
      const tookMs = clock.monotonicMs() - beganMs
      // A clock that stands still says nothing, and one slow transaction says little: the machine has others to serve.
      if (tookMs > 0)
        rows = Math.round(clamp(rows * clamp(TARGET_MS / tookMs, MIN_SCALE, MAX_SCALE), MIN_ROWS, MAX_ROWS))
      return result
    },
  }
}
