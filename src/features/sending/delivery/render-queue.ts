/**
 * @module Who of those in hand may be rendered now. Bodies that are rendered and that no Worker has yet are outside the memory budget, since nobody knows
 * their size before: so they are bounded by their number. Knows neither templates nor messages.
 */
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'

/** Bodies of a MiB or two each that may be held at once, and of these one account's: it may be slow to render, or wait for memory. */
const MAX_CONCURRENT_BODIES = 32
const MAX_BODIES_PER_ACCOUNT = 8

/** `T` says whose body it is, by identity. */
export class RenderQueue<T> {
  readonly #waiting = new FairQueue<{ readonly owner: T; readonly begin: () => void }>()
  readonly #waitingOwners = new Set<T>()
  /** Those that are rendered or hold what was rendered, with their account. */
  readonly #rendering = new Map<T, Owner>()

  /** Calls `begin`, now or when it is the owner's turn. */
  enqueue(owner: T, accountId: number, begin: () => void): void {
    this.#waiting.push(accountId, { owner, begin })
    this.#waitingOwners.add(owner)
    this.#beginNext()
  }

  /** Whether the owner waits, is rendered, or holds what was rendered. */
  has(owner: T): boolean {
    return this.#waitingOwners.has(owner) || this.#rendering.has(owner)
  }

  /** The owner's body is held elsewhere or dropped; who waits next may begin. Does nothing for an owner that is not here. */
  leave(owner: T): void {
    if (this.#waitingOwners.delete(owner)) this.#waiting.remove((waiting) => waiting.owner === owner)
    if (this.#rendering.delete(owner)) this.#beginNext()
  }

  /** Nobody who waits is begun any more. */
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
