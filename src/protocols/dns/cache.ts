/**
 * @module A map whose entries end after their time to live, bounded in number and weight; the entry used longest ago goes first.
 */
import type { Clock } from '#platform/clock.ts'

interface Entry<T> {
  readonly value: T
  readonly weight: number
  readonly expiresAtMs: number
}

export interface TtlCache<T> {
  /** The value and for how many whole seconds more it holds. */
  get(key: string): { readonly value: T; readonly remainingSeconds: number } | undefined
  /** A value of no time to live, or heavier than the whole cache, is not kept. */
  set(key: string, value: T, ttlSeconds: number, weight: number): void
  readonly size: number
  clear(): void
}

/** Time is the monotonic one: a jump of the wall clock neither ends an entry nor prolongs it. */
export function createTtlCache<T>(clock: Clock, limits: { maxEntries: number; maxWeight: number }): TtlCache<T> {
  const entries = new Map<string, Entry<T>>()
  let totalWeight = 0

  const remove = (key: string): void => {
    const entry = entries.get(key)
    if (entry === undefined) return
    totalWeight -= entry.weight
    entries.delete(key)
  }

  return {
    get(key) {
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      const leftMs = entry.expiresAtMs - clock.monotonicMs()
      if (leftMs <= 0) {
        remove(key)
        return undefined
      }
      // A Map keeps the order of insertion: the first is the one used longest ago.
      entries.delete(key)
      entries.set(key, entry)
      return { value: entry.value, remainingSeconds: Math.floor(leftMs / 1000) }
    },
    set(key, value, ttlSeconds, weight) {
      remove(key)
      if (ttlSeconds <= 0 || weight > limits.maxWeight || limits.maxEntries <= 0) return
      entries.set(key, { value, weight, expiresAtMs: clock.monotonicMs() + ttlSeconds * 1000 })
      totalWeight += weight
      for (const oldest of entries.keys()) {
        if (entries.size <= limits.maxEntries && totalWeight <= limits.maxWeight) break
        remove(oldest)
      }
    },
    get size() {
      return entries.size
    },
    clear() {
      entries.clear()
      totalWeight = 0
    },
  }
}
