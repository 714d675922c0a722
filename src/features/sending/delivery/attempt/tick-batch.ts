/** @module Gathers what one tick of the event loop adds, so that it is handled together. */

export class TickBatch<T> {
  readonly #max: number
  readonly #run: (items: readonly T[]) => void
  #items: T[] = []

  /** @param run called with up to `max` items, before the event loop continues */
  constructor(max: number, run: (items: readonly T[]) => void) {
    this.#max = max
    this.#run = run
  }

  push(item: T): void {
    if (this.#items.push(item) === 1) queueMicrotask(() => this.#flush())
  }

  #flush(): void {
    const items = this.#items
    this.#items = []
    for (let from = 0; from < items.length; from += this.#max) this.#run(items.slice(from, from + this.#max))
  }
}
