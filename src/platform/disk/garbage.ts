/**
 * @module Runs the garbage collector after large texts are dropped. Left alone, the collector lets dropped texts pile
 * up in addition to the memory that the memory budget counts. Code that drops a large text reports its size here.
 */

import { perOwner } from '#platform/per-owner.ts'
import type { MemoryBudget } from '#platform/process/memory-budget.ts'

/**
 * Fraction of the memory budget that garbage may reach before a collection, which takes some 20 ms. Measured with
 * emails of 25 MiB in a row: a peak of 430 to 690 MiB without collections, 240 MiB with them.
 */
const COLLECTED_FRACTION = 0.25

const getCollector = perOwner(({ limitBytes }: MemoryBudget) => createCollector(limitBytes * COLLECTED_FRACTION))

/** Counts bytes that became garbage, and runs the collector once they exceed a fraction of the budget. */
export const addGarbage = (memory: MemoryBudget, bytes: number): void => getCollector(memory)(bytes)

function createCollector(thresholdBytes: number): (bytes: number) => void {
  let garbageBytes = 0
  let isScheduled = false
  return (bytes) => {
    garbageBytes += bytes
    if (isScheduled || garbageBytes < thresholdBytes) return
    isScheduled = true
    // Deferred to the next tick, because code of this tick still references the garbage.
    setImmediate(() => {
      isScheduled = false
      garbageBytes = 0
      Bun.gc(true)
    })
  }
}
