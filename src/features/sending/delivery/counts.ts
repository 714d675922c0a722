/** @module Counts by account; those of zero take no memory. */

export class Counts {
  readonly #counts = new Map<number, number>()

  /** Accounts with a count. */
  get size(): number {
    return this.#counts.size
  }

  keys(): Iterable<number> {
    return this.#counts.keys()
  }

  of(accountId: number): number {
    return this.#counts.get(accountId) ?? 0
  }

  add(accountId: number, delta: number): void {
    const count = this.of(accountId) + delta
    if (count === 0) this.#counts.delete(accountId)
    else this.#counts.set(accountId, count)
  }
}
