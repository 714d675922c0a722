/** @module Counts by owner (an account, a network) and their total; zero counts take no memory. */

export class Counts<K = number> {
  readonly #counts = new Map<K, number>()
  #total = 0

  /** Number of owners with a count. */
  get size(): number {
    return this.#counts.size
  }

  /** Sum over all owners. */
  get total(): number {
    return this.#total
  }

  keys(): Iterable<K> {
    return this.#counts.keys()
  }

  [Symbol.iterator](): Iterator<[K, number]> {
    return this.#counts.entries()
  }

  of(owner: K): number {
    return this.#counts.get(owner) ?? 0
  }

  add(owner: K, delta: number): void {
    const count = this.of(owner) + delta
    this.#total += delta
    if (count === 0) this.#counts.delete(owner)
    else this.#counts.set(owner, count)
  }
}
