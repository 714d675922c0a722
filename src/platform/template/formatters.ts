/**
 * @module Formatters of Intl, kept: making one takes a thousand times as long as using it. What is kept must not decide what a render takes, so each render
 * pays for those that it asks for as if nobody had before.
 */
import type { Charge } from './filter-arguments.ts'

const MAX_CACHED_FORMATTERS = 64
/** Units for a formatter that a render has not asked for yet: measured, and rounded up. */
export const NEW_FORMATTER_UNITS = 100_000

export interface Formatters<T> {
  /** Takes units; throws what making it throws. */
  of(key: string, make: () => T): T
  /** From now on another render pays. */
  beginRender(): void
}

export function createFormatters<T>(charge: Charge): Formatters<T> {
  /** From the one that was used least recently on. */
  const kept = new Map<string, T>()
  let paid = new Set<string>()
  return {
    of(key, make) {
      if (!paid.has(key)) {
        // As many as are kept: beyond them each that comes again may be made again.
        if (paid.size >= MAX_CACHED_FORMATTERS) paid.clear()
        paid.add(key)
        charge(NEW_FORMATTER_UNITS)
      }
      const formatter = kept.get(key) ?? make()
      kept.delete(key)
      kept.set(key, formatter)
      const [oldest] = kept.keys()
      if (kept.size > MAX_CACHED_FORMATTERS && oldest !== undefined) kept.delete(oldest)
      return formatter
    },
    beginRender() {
      paid = new Set()
    },
  }
}
