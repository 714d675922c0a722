/** @module Watches an attacked process: its peak memory, and how its HTTP server responds meanwhile. */
import { writeFileSync } from 'node:fs'
import { readUsage } from '#bench/processes.ts'
import { MiB } from '#platform/units.ts'

const MAX_BYTES_ABOVE_IDLE = 200_000_000
const PROBE_INTERVAL_MS = 20
const PROBE_TIMEOUT_MS = 10_000

export interface Watched {
  readonly seconds: number
  /** Highest resident memory, above idle. */
  readonly peakBytes: number
  /** Of the requests that were answered, in order. */
  readonly responseMs: readonly number[]
  /** What must not happen, in capitals. */
  readonly problems: readonly string[]
}

/** Resident memory now. */
export const readMemoryBytes = (pid: number): number => readUsage(pid).rssMiB * MiB

/** Asks `url` until the attack is over. @param isOver called between requests */
export async function watch(
  { pid, url, idleBytes }: { readonly pid: number; readonly url: string; readonly idleBytes: number },
  isOver: () => boolean | Promise<boolean>,
): Promise<Watched> {
  // Resets the peak: proc(5).
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const startedMs = performance.now()
  const responseMs: number[] = []
  let unanswered = 0
  while (!(await isOver())) {
    const askedMs = performance.now()
    const isAnswered = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isAnswered) responseMs.push(performance.now() - askedMs)
    else unanswered++
    await Bun.sleep(PROBE_INTERVAL_MS)
  }
  const peakBytes = readUsage(pid).peakRssMiB * MiB - idleBytes
  return {
    seconds: (performance.now() - startedMs) / 1000,
    peakBytes,
    responseMs: responseMs.sort((a, b) => a - b),
    problems: [
      ...(peakBytes > MAX_BYTES_ABOVE_IDLE ? ['TOO MUCH MEMORY'] : []),
      ...(unanswered > 0 ? [`${unanswered} HTTP REQUESTS WITHOUT A RESPONSE`] : []),
    ],
  }
}

export const formatMegabytes = (bytes: number): string => (bytes / 1_000_000).toFixed(0)
