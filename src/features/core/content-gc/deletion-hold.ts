/**
 * @module Holds off the deletion of content while a backup copies it, because the copied database may refer to content
 * that has been deleted since. Each backup has to renew its hold, so one that was killed holds nothing for long, and one
 * that is stuck holds nothing for ever.
 */
import type { Clock } from '#platform/time/clock.ts'
import { hours, minutes } from '#platform/units.ts'

export interface DeletionHold {
  readonly isActive: boolean
  /** Begins or renews the hold of a backup. False when that backup has held for too long. */
  renew(id: string): boolean
  release(id: string): void
}

/** How long a hold lasts without being renewed. */
const TTL_MS = minutes(2)
/** How often a backup renews its hold. */
export const RENEW_INTERVAL_MS = minutes(2) / 4
/** How long one backup may hold off deletion. */
const MAX_HOLD_MS = hours(6)

export function createDeletionHold(clock: Pick<Clock, 'monotonicMs'>): DeletionHold {
  const holds = new Map<string, { readonly beganMs: number; untilMs: number }>()
  return {
    get isActive() {
      const now = clock.monotonicMs()
      return [...holds.values()].some(({ untilMs }) => untilMs > now)
    },
    renew(id) {
      const now = clock.monotonicMs()
      // A hold that has ended stays until it is forgotten, so that it cannot begin again.
      for (const [known, { beganMs }] of holds) if (now - beganMs > 2 * MAX_HOLD_MS) holds.delete(known)
      const hold = holds.get(id) ?? { beganMs: now, untilMs: now }
      holds.set(id, hold)
      hold.untilMs = Math.min(now + TTL_MS, hold.beganMs + MAX_HOLD_MS)
      return hold.untilMs > now
    },
    release(id) {
      holds.delete(id)
    },
  }
}
