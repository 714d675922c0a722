/**
 * @module Which parts of a content store were given out lately, so that the row that is to refer to them may not be written yet. By the monotonic clock: the
 * wall clock may jump. In memory: after a restart nothing is on its way.
 */
import type { Clock } from '../clock.ts'
import { minutes, seconds } from '../units.ts'

/** From a part to the row that refers to it: nothing but commits is between. */
const RECENT_MS = minutes(5)
/** How exactly is known since when a part is there. */
const MARK_INTERVAL_MS = seconds(30)

/** Since when there are parts from a row on. */
interface Mark {
  readonly atMs: number
  readonly firstId: number
}

export interface RecentBlobs {
  /** A part that was there when somebody stored the same. */
  recordReused(ref: number): void
  /** A new part. */
  recordNew(month: number, id: number): void
  wasReused(ref: number): boolean
  /** The first new part of a month that may have no row yet; undefined: all that are to have one have it. */
  firstNew(month: number): number | undefined
}

export function createRecentBlobs(clock: Pick<Clock, 'monotonicMs'>): RecentBlobs {
  /** In the order of their time. */
  const again = new Map<number, number>()
  const marks = new Map<number, Mark[]>()
  const forgetOld = (): void => {
    const before = clock.monotonicMs() - RECENT_MS
    for (const [ref, atMs] of again) {
      if (atMs >= before) break
      again.delete(ref)
    }
    for (const [month, ofMonth] of marks) {
      while (ofMonth[0] !== undefined && ofMonth[0].atMs + MARK_INTERVAL_MS < before) ofMonth.shift()
      if (ofMonth.length === 0) marks.delete(month)
    }
  }
  return {
    recordReused(ref) {
      forgetOld()
      again.delete(ref)
      again.set(ref, clock.monotonicMs())
    },
    recordNew(month, id) {
      const ofMonth = marks.get(month) ?? []
      const last = ofMonth.at(-1)
      if (last && clock.monotonicMs() - last.atMs < MARK_INTERVAL_MS) return
      forgetOld()
      ofMonth.push({ atMs: clock.monotonicMs(), firstId: id })
      marks.set(month, ofMonth)
    },
    wasReused(ref) {
      forgetOld()
      return again.has(ref)
    },
    firstNew(month) {
      forgetOld()
      return marks.get(month)?.[0]?.firstId
    },
  }
}
