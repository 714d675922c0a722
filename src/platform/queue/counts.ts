/** @module Counts by owner (an account, a network); those of zero take no memory. */

export class Counts<K = number> {
  readonly #counts = new Map<K, number>()

  /** Owners with a count. */
  get size(): number {
    return this.#counts.size
  }

  keys(): Iterable<K> {
    return this.#counts.keys()
  }

  of(owner: K): number {
    return this.#counts.get(owner) ?? 0
  }

  add(owner: K, delta: number): void {
    const count = this.of(owner) + delta
    if (count === 0) this.#counts.delete(owner)
    else this.#counts.set(owner, count)
  }
}
