/**
 * @module Limits how many broadcast emails are rendered at a time. The size of a body is unknown until it is rendered,
 * so the memory budget does not cover bodies that no Worker has yet; their number is limited instead. Knows neither
 * templates nor messages.
 */
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'

/**
 * Maximum number of bodies, in total and per account; a body has a MiB or two. The limit per account leaves capacity to
 * others while one account renders slowly or waits for memory.
 */
const MAX_CONCURRENT_BODIES = 32
const MAX_BODIES_PER_ACCOUNT = 8

/** `T` identifies the owner of a body, by object identity. */
export class RenderQueue<T> {
  readonly #waiting = new FairQueue<{ readonly owner: T; readonly begin: () => void }>()
  readonly #waitingOwners = new Set<T>()
  /** Owners being rendered or holding a rendered body, with their account. */
  readonly #rendering = new Map<T, Owner>()

  /** Calls `begin` immediately, or when it is the owner's turn. */
  enqueue(owner: T, accountId: number, begin: () => void): void {
    this.#waiting.push(accountId, { owner, begin })
    this.#waitingOwners.add(owner)
    this.#beginNext()
  }

  /** Whether the owner waits, is being rendered, or holds a rendered body. */
  has(owner: T): boolean {
    return this.#waitingOwners.has(owner) || this.#rendering.has(owner)
  }

  /**
   * Frees the slot of an owner whose body was sent to a Worker or dropped, and starts the next rendering. Ignores
   * unknown owners.
   */
  leave(owner: T): void {
    if (this.#waitingOwners.delete(owner)) this.#waiting.remove((waiting) => waiting.owner === owner)
    if (this.#rendering.delete(owner)) this.#beginNext()
  }

  /** Drops all waiting owners; they never begin. */
  clear(): void {
    this.#waiting.remove(() => true)
    this.#waitingOwners.clear()
  }

  #beginNext(): void {
    while (this.#rendering.size < MAX_CONCURRENT_BODIES) {
      const next = this.#waiting.shift((accountId) => this.#countOf(accountId) < MAX_BODIES_PER_ACCOUNT)
      if (!next) return
      const { owner, begin } = next.item
      this.#waitingOwners.delete(owner)
      this.#rendering.set(owner, next.owner)
      begin()
    }
  }

  #countOf(accountId: Owner): number {
    let count = 0
    for (const other of this.#rendering.values()) if (other === accountId) count++
    return count
  }
}
