/**
 * @module Measures the use of the disk in a Worker, only while an operator looks. Reads every page of the database, so
 * the longer a measurement takes, the less often it is repeated.
 */
import type { App } from '#features/core/app/app.ts'
import { askWorker } from '#platform/process/workers.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import type { DiskUse } from './disk.ts'
import type { DiskRequest } from './disk-worker.ts'

/** Measurements take at most this fraction of the time. */
const MAX_MEASURE_FRACTION = 0.02
const MIN_INTERVAL_MS = minutes(1)
/** How long a request waits for a measurement; most databases take less. */
const WAIT_MS = seconds(2)

export interface DiskReading {
  /** The last measurement; undefined while the first one runs, or when it failed. */
  readonly usage: DiskUse | undefined
  readonly isMeasuring: boolean
}

/** Creates a function that returns the last measurement, and starts the next one if it is due. */
export function createDiskMeter(app: App): () => Promise<DiskReading> {
  const { clock, config, log } = app
  let usage: DiskUse | undefined
  let nextAtMs: Millis = Number.NEGATIVE_INFINITY
  let running: Promise<void> | undefined
  const measure = async (): Promise<void> => {
    const startedAtMs = clock.monotonicMs()
    try {
      usage = await askWorker<DiskUse>('disk', { config, now: clock.now() } satisfies DiskRequest)
    } catch (error) {
      log.warn({ err: error }, 'disk use not measured')
    } finally {
      const now = clock.monotonicMs()
      nextAtMs = now + Math.max(MIN_INTERVAL_MS, (now - startedAtMs) / MAX_MEASURE_FRACTION)
    }
  }
  return async () => {
    if (running === undefined && clock.monotonicMs() >= nextAtMs)
      running = measure().finally(() => {
        running = undefined
      })
    if (running) await Promise.race([running, clock.sleep(WAIT_MS)])
    return { usage, isMeasuring: running !== undefined }
  }
}
