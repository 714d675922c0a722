/**
 * @module Collects the garbage of large texts in time: left to itself the collector lets it pile up beside the memory budget. Who gives up large texts says
 * how many bytes they were.
 */
import type { MemoryBudget } from './memory-budget.ts'
import { perOwner } from './per-owner.ts'

/**
 * Part of the memory that garbage may take before it is collected, which takes some 20 ms (measured with emails of 25 MiB one after the other: 430 to
 * 690 MiB at the peak without, 240 MiB with it).
 */
const COLLECTED_FRACTION = 0.25

const getCollector = perOwner(({ limitBytes }: MemoryBudget) => createCollector(limitBytes * COLLECTED_FRACTION))

/** Counts bytes that became garbage beside a budget, and collects when they are too many. */
export const addGarbage = (memory: MemoryBudget, bytes: number): void => getCollector(memory)(bytes)

function createCollector(thresholdBytes: number): (bytes: number) => void {
  let garbageBytes = 0
  let isAsked = false
  return (bytes) => {
    garbageBytes += bytes
    if (isAsked || garbageBytes < thresholdBytes) return
    isAsked = true
    // After this turn of the event loop: only then is nothing of it in use any more.
    setImmediate(() => {
      isAsked = false
      garbageBytes = 0
      Bun.gc(true)
    })
  }
}
