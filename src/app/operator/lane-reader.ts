/** @module The open lanes of the queue, read at most as often as their number allows. */
import type { App } from '#features/core/app/app.ts'
import type { LaneState } from '#features/sending/delivery/scheduler.ts'
import type { Millis } from '#platform/clock.ts'
import { seconds } from '#platform/units.ts'
import type { RunningDelivery } from '../create.ts'
import { readLanes } from './queue.ts'

/** Reading takes at most this fraction of the time of the main thread. */
const MAX_READ_FRACTION = 0.02
const MIN_INTERVAL_MS = seconds(1)

/** Creates a function that returns every lane with open mail, the earliest first; it may be some seconds old. */
export function createLaneReader(
  app: App,
  delivery: () => RunningDelivery | undefined,
): () => { readonly lanes: readonly LaneState[]; readonly readAt: Millis } {
  let lanes: readonly LaneState[] = []
  let readAt: Millis = 0
  let nextAtMs: Millis = Number.NEGATIVE_INFINITY
  return () => {
    const startedAtMs = app.clock.monotonicMs()
    if (startedAtMs >= nextAtMs) {
      lanes = readLanes(app, delivery())
      readAt = app.clock.now()
      const now = app.clock.monotonicMs()
      nextAtMs = now + Math.max(MIN_INTERVAL_MS, (now - startedAtMs) / MAX_READ_FRACTION)
    }
    return { lanes, readAt }
  }
}
