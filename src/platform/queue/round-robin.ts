/**
 * @module A round-robin queue of owners (accounts): each turn takes one item, whatever the item costs. For items that
 * cost the same or whose cost is counted elsewhere. Within an owner, items of a lower rank go first. Each step takes
 * constant time per owner, however many items wait.
 */

export class RoundRobin<T> {
  readonly #rankOf: (item: T) => number
  /** In the order of the owners' turns; the items of each rank. */
  readonly #itemsOf = new Map<number, Set<T>[]>()
  readonly #ownerOf = new Map<T, number>()
  /** The owner that had the last turn; it stays behind all others. */
  #lastOwner: number | undefined

  /** @param rankOf a small number from 0, always the same for an item; default: all items have the same rank */
  constructor(rankOf: (item: T) => number = () => 0) {
    this.#rankOf = rankOf
  }

  get size(): number {
    return this.#ownerOf.size
  }

  countOf(owner: number): number {
    return this.#itemsOf.get(owner)?.reduce((count, items) => count + items.size, 0) ?? 0
  }

  /** The item of an owner that goes first. */
  firstOf(owner: number): T | undefined {
    const [first] = this.#itemsOf.get(owner)?.find((items) => items.size > 0) ?? []
    return first
  }

  has(item: T): boolean {
    return this.#ownerOf.has(item)
  }

  /** All items, grouped by owner in the order of their turns. */
  all(): T[] {
    return [...this.#itemsOf.values()].flatMap((ranks) => ranks.flatMap((items) => [...items]))
  }

  /**
   * Adds an item behind the other items of its owner and rank. An owner without items goes behind all others but the
   * one that had the last turn. Returns false when the item already waits.
   */
  add(owner: number, item: T): boolean {
    if (this.#ownerOf.has(item)) return false
    const ranks = this.#itemsOf.get(owner) ?? []
    if (ranks.length === 0) {
      this.#itemsOf.set(owner, ranks)
      if (this.#lastOwner !== undefined) this.#moveBehind(this.#lastOwner)
    }
    const rank = this.#rankOf(item)
    while (ranks.length <= rank) ranks.push(new Set())
    ranks[rank]?.add(item)
    this.#ownerOf.set(item, owner)
    return true
  }

  /** Removes an item and returns its owner; undefined when the item does not wait. */
  delete(item: T): number | undefined {
    const owner = this.#ownerOf.get(item)
    if (owner === undefined) return undefined
    this.#itemsOf.get(owner)?.[this.#rankOf(item)]?.delete(item)
    if (this.countOf(owner) === 0) this.#itemsOf.delete(owner)
    this.#ownerOf.delete(item)
    return owner
  }

  /**
   * Takes out the first item of the owner whose turn it is.
   * @param isServable called with an owner and its first item; returns false for owners that cannot be served now;
   * these are skipped and keep their turn
   */
  shift(isServable: (owner: number, first: T) => boolean = () => true) {
    for (const owner of this.#itemsOf.keys()) {
      const item = this.firstOf(owner)
      if (item === undefined || !isServable(owner, item)) continue
      this.delete(item)
      this.#moveBehind(owner)
      this.#lastOwner = owner
      return { owner, item }
    }
    return undefined
  }

  #moveBehind(owner: number): void {
    const ranks = this.#itemsOf.get(owner)
    if (!ranks) return
    this.#itemsOf.delete(owner)
    this.#itemsOf.set(owner, ranks)
  }
}
