/**
 * @module Proofs that are valid for some minutes and once. Which were used is forgotten at a restart, and the oldest when
 * an attack uses very many.
 */
import type { Clock, Millis } from '#platform/time/clock.ts'

const MAX_USED = 100_000

export function createSingleUse(clock: Pick<Clock, 'now'>, validMs: number) {
  /** Ids of what was used with the time when it was created, oldest first. */
  const used = new Map<string, Millis>()
  // Also for a clock that was set back.
  const isCurrent = (createdAt: Millis): boolean => Math.abs(clock.now() - createdAt) < validMs
  const forgetOldest = (): void => {
    for (const [id, createdAt] of used) {
      if (isCurrent(createdAt) && used.size < MAX_USED) return
      used.delete(id)
    }
  }
  return {
    /** False when it is too old, or was used before. */
    use(id: string, createdAt: Millis): boolean {
      if (!isCurrent(createdAt) || used.has(id)) return false
      forgetOldest()
      used.set(id, createdAt)
      return true
    },
  }
}
