/**
 * @module Adapts the rows per transaction to the speed of this disk and cache, so that a transaction takes some
 * milliseconds.
 */
import type { Clock } from '#platform/clock.ts'

/** Target duration of a retention transaction, because requests wait for it. The commit comes on top. */
const TARGET_MS = 2.5
const MIN_ROWS = 10
const MAX_ROWS = 500
const FIRST_ROWS = 50

/** Limits of the change from one transaction to the next. */
const MIN_SCALE = 0.6
const MAX_SCALE = 1.5

const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value))

export interface BatchSizer {
  /** Rows for the next transaction. */
  readonly rows: number
  /** Runs the work of a transaction and adapts to its duration. */
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
      // Without progress of the clock, the duration says nothing. One slow transaction says little, because other work
      // shares the machine; so the change is limited.
      if (tookMs > 0)
        rows = Math.round(clamp(rows * clamp(TARGET_MS / tookMs, MIN_SCALE, MAX_SCALE), MIN_ROWS, MAX_ROWS))
      return result
    },
  }
}
