/**
 * @module A round-robin queue of owners (accounts): each turn takes one item, whatever the item costs. For items that
 * cost the same or whose cost is counted elsewhere. Each step takes constant time, however many items wait.
 */

interface DequeuedItem<T> {
  readonly owner: number
  readonly item: T
}

export class RoundRobin<T> {
  /** In the order of the owners' turns. */
  readonly #itemsOf = new Map<number, Set<T>>()
  readonly #ownerOf = new Map<T, number>()

  get size(): number {
    return this.#ownerOf.size
  }

  countOf(owner: number): number {
    return this.#itemsOf.get(owner)?.size ?? 0
  }

  has(item: T): boolean {
    return this.#ownerOf.has(item)
  }

  /** All items, grouped by owner in the order of their turns. */
  all(): T[] {
    return [...this.#itemsOf.values()].flatMap((items) => [...items])
  }

  /**
   * Adds an item behind the other items of its owner; an owner without items goes behind all others. Returns false when
   * the item already waits.
   */
  add(owner: number, item: T): boolean {
    if (this.#ownerOf.has(item)) return false
    const items = this.#itemsOf.get(owner)
    if (items) items.add(item)
    else this.#itemsOf.set(owner, new Set([item]))
    this.#ownerOf.set(item, owner)
    return true
  }

  /** Removes an item and returns its owner; undefined when the item does not wait. */
  delete(item: T): number | undefined {
    const owner = this.#ownerOf.get(item)
    if (owner === undefined) return undefined
    const items = this.#itemsOf.get(owner)
    items?.delete(item)
    if (items?.size === 0) this.#itemsOf.delete(owner)
    this.#ownerOf.delete(item)
    return owner
  }

  /**
   * Takes out the first item of the owner whose turn it is.
   * @param isServable returns false for owners that cannot be served now; these are skipped and keep their turn
   */
  shift(isServable: (owner: number) => boolean = () => true): DequeuedItem<T> | undefined {
    for (const [owner, items] of this.#itemsOf) {
      const [item] = items
      if (item === undefined || !isServable(owner)) continue
      this.delete(item)
      if (items.size > 0) {
        // Moves the owner behind the others.
        this.#itemsOf.delete(owner)
        this.#itemsOf.set(owner, items)
      }
      return { owner, item }
    }
    return undefined
  }
}
