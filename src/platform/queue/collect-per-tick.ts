/** @module Passes on together what was collected in one tick of the event loop. */

/**
 * Returns a function that collects items.
 * @param defer when they are passed on: `queueMicrotask` before the event loop continues, `setImmediate` after the
 * current poll phase
 * @param run called with up to `max` items
 */
export function collectPerTick<T>(
  defer: (flush: () => void) => void,
  run: (items: readonly T[]) => void,
  max = Number.POSITIVE_INFINITY,
): (item: T) => void {
  let items: T[] = []
  const flush = () => {
    const collected = items
    items = []
    for (let from = 0; from < collected.length; from += max) run(collected.slice(from, from + max))
  }
  return (item) => {
    if (items.push(item) === 1) defer(flush)
  }
}
