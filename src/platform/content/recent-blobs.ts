/**
 * @module Tracks the blobs of a content store that were returned recently: the rows that will reference them may not
 * exist yet. Uses the monotonic clock, because the wall clock may jump. In memory only: a restart ends every request
 * that could still write such a row.
 */
import type { Clock } from '#platform/time/clock.ts'
import { minutes, seconds } from '../units.ts'

/**
 * Maximum time between storing a blob and writing the row that references it: nothing but their commits happens in
 * between.
 */
const RECENT_MS = minutes(5)
/** Precision of the recorded times. */
const MARK_INTERVAL_MS = seconds(30)

/** When the blob with id `firstId`, and those after it, were stored. */
interface Mark {
  readonly atMs: number
  readonly firstId: number
}

export type RecentBlobs = ReturnType<typeof createRecentBlobs>

export function createRecentBlobs(clock: Pick<Clock, 'monotonicMs'>) {
  /** Ordered by time. */
  const reusedAt = new Map<number, number>()
  const marks = new Map<number, Mark[]>()
  const evictOld = (): void => {
    const before = clock.monotonicMs() - RECENT_MS
    for (const [ref, atMs] of reusedAt) {
      if (atMs >= before) break
      reusedAt.delete(ref)
    }
    for (const [month, monthMarks] of marks) {
      while (monthMarks[0] !== undefined && monthMarks[0].atMs + MARK_INTERVAL_MS < before) monthMarks.shift()
      if (monthMarks.length === 0) marks.delete(month)
    }
  }
  return {
    /** Records an existing blob that was stored again. */
    recordReused(ref: number): void {
      evictOld()
      reusedAt.delete(ref)
      reusedAt.set(ref, clock.monotonicMs())
    },
    /** Records a new blob. */
    recordNew(month: number, id: number): void {
      const monthMarks = marks.get(month) ?? []
      const last = monthMarks.at(-1)
      if (last && clock.monotonicMs() - last.atMs < MARK_INTERVAL_MS) return
      evictOld()
      monthMarks.push({ atMs: clock.monotonicMs(), firstId: id })
      marks.set(month, monthMarks)
    },
    wasReused(ref: number): boolean {
      evictOld()
      return reusedAt.has(ref)
    },
    /**
     * The lowest id among a month's new blobs, whose referencing rows may not exist yet. Undefined: the month has no new
     * blobs.
     */
    firstNew(month: number): number | undefined {
      evictOld()
      return marks.get(month)?.[0]?.firstId
    },
  }
}
