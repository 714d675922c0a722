/** @module A cache whose entries expire, limited in number and weight; evicts the least recently used entry first. */
import type { Clock } from '#platform/time/clock.ts'

interface Entry<T> {
  readonly value: T
  readonly weight: number
  readonly expiresAtMs: number
}

/** Uses the monotonic clock: a jump of the wall clock neither expires an entry nor extends it. */
export function createTtlCache<T>(clock: Clock, limits: { maxEntries: number; maxWeight: number }) {
  const entries = new Map<string, Entry<T>>()
  let totalWeight = 0

  const remove = (key: string): void => {
    const entry = entries.get(key)
    if (entry === undefined) return
    totalWeight -= entry.weight
    entries.delete(key)
  }

  return {
    /** Returns the value and the whole seconds until it expires. */
    get(key: string): { readonly value: T; readonly remainingSeconds: number } | undefined {
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      const leftMs = entry.expiresAtMs - clock.monotonicMs()
      if (leftMs <= 0) {
        remove(key)
        return undefined
      }
      // A Map iterates in insertion order, so the first entry is the least recently used.
      entries.delete(key)
      entries.set(key, entry)
      return { value: entry.value, remainingSeconds: Math.floor(leftMs / 1000) }
    },
    /** Does not store a value without a time to live, or a value that is heavier than the whole cache. */
    set(key: string, value: T, ttlSeconds: number, weight: number): void {
      remove(key)
      if (ttlSeconds <= 0 || weight > limits.maxWeight || limits.maxEntries <= 0) return
      entries.set(key, { value, weight, expiresAtMs: clock.monotonicMs() + ttlSeconds * 1000 })
      totalWeight += weight
      for (const oldest of entries.keys()) {
        if (entries.size <= limits.maxEntries && totalWeight <= limits.maxWeight) break
        remove(oldest)
      }
    },
  }
}
