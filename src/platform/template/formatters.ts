/**
 * @module Caches Intl formatters, because creating a formatter takes a thousand times as long as using it. The cache
 * must not influence what a render costs, so each render pays for its formatters as if they were new.
 */
import { storeNewest } from '../bounded-map.ts'
import type { Charge } from './filter-arguments.ts'

const MAX_CACHED_FORMATTERS = 64
/** Units for a formatter that is new to a render: measured, and rounded up. */
export const NEW_FORMATTER_UNITS = 100_000

export type Formatters<T> = ReturnType<typeof createFormatters<T>>

export function createFormatters<T>(charge: Charge) {
  /** Least recently used first. */
  const cached = new Map<string, T>()
  let paid = new Set<string>()
  return {
    /** Returns a formatter. Charges its units at its first use in a render; throws what `make` throws. */
    of(key: string, make: () => T): T {
      if (!paid.has(key)) {
        // When a render has paid for as many formatters as the cache holds, all payments are forgotten: an evicted
        // formatter has to be created, and paid for, again.
        if (paid.size >= MAX_CACHED_FORMATTERS) paid.clear()
        paid.add(key)
        charge(NEW_FORMATTER_UNITS)
      }
      const formatter = cached.get(key) ?? make()
      storeNewest(cached, key, formatter, MAX_CACHED_FORMATTERS)
      return formatter
    },
    /** Starts another render, which pays for its formatters again. */
    beginRender(): void {
      paid = new Set()
    },
  }
}
