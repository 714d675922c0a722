/** @module The open lanes of the queue, read at most as often as their number allows. */
import type { App } from '#features/core/app/app.ts'
import type { OpenLane } from '#features/sending/queue/queue.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { readLanes } from './queue.ts'

/** Reading takes at most this fraction of the time. */
const MAX_READ_FRACTION = 0.02
const MIN_INTERVAL_MS = seconds(1)

/** Resolves with every lane with open mail, the earliest first; it may be some seconds old. */
export type LaneReader = () => Promise<readonly OpenLane[]>

/** The reader of an app; all callers share its readings. */
export const getLaneReader = perOwner((app: App): LaneReader => {
  let reading: Promise<readonly OpenLane[]> | undefined
  let nextAtMs: Millis = Number.NEGATIVE_INFINITY
  const read = async (): Promise<readonly OpenLane[]> => {
    const startedAtMs = app.clock.monotonicMs()
    try {
      return await readLanes(app)
    } finally {
      const now = app.clock.monotonicMs()
      nextAtMs = now + Math.max(MIN_INTERVAL_MS, (now - startedAtMs) / MAX_READ_FRACTION)
    }
  }
  return () => {
    if (!reading || app.clock.monotonicMs() >= nextAtMs) {
      nextAtMs = Number.POSITIVE_INFINITY
      reading = read()
    }
    return reading
  }
})
