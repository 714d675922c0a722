/**
 * @module Who of those in hand may be rendered now. Bodies that are rendered and that no Worker has yet are outside the memory budget, since nobody knows
 * their size before: so they are bounded by their number. Knows neither templates nor messages.
 */

/** Bodies of a MiB or two each that may be held at once, and of these one account's: it may be slow to render, or wait for memory. */
const MOST_AT_ONCE = 32
const MOST_OF_ACCOUNT = 8

/** `T` says whose body it is, by identity. */
export class RenderLine<T> {
  /** Each account's, oldest first; accounts in the order of their turns. */
  readonly #waiting = new Map<number, Map<T, () => void>>()
  readonly #waitingAt = new Map<T, number>()
  /** Those that are rendered or hold what was rendered, with their account. */
  readonly #inWork = new Map<T, number>()
  readonly #countOf = new Map<number, number>()

  /** Calls `begin`, now or when it is the owner's turn. */
  enter(owner: T, accountId: number, begin: () => void): void {
    const waiting = this.#waiting.get(accountId)
    if (waiting) waiting.set(owner, begin)
    else this.#waiting.set(accountId, new Map([[owner, begin]]))
    this.#waitingAt.set(owner, accountId)
    this.#beginNext()
  }

  /** Whether the owner waits, is rendered, or holds what was rendered. */
  has(owner: T): boolean {
    return this.#waitingAt.has(owner) || this.#inWork.has(owner)
  }

  /** The owner's body is held elsewhere or dropped; who waits next may begin. Does nothing for an owner that is not here. */
  leave(owner: T): void {
    const at = this.#waitingAt.get(owner)
    if (at !== undefined) this.#takeOut(at, owner)
    const accountId = this.#inWork.get(owner)
    if (accountId === undefined) return
    this.#inWork.delete(owner)
    this.#count(accountId, -1)
    this.#beginNext()
  }

  /** Nobody who waits is begun any more. */
  clear(): void {
    this.#waiting.clear()
    this.#waitingAt.clear()
  }

  #beginNext(): void {
    while (this.#inWork.size < MOST_AT_ONCE) {
      const next = this.#next()
      if (!next) return
      const { accountId, owner, begin } = next
      this.#takeOut(accountId, owner)
      const others = this.#waiting.get(accountId)
      if (others) {
        // To the end of those who wait.
        this.#waiting.delete(accountId)
        this.#waiting.set(accountId, others)
      }
      this.#inWork.set(owner, accountId)
      this.#count(accountId, 1)
      begin()
    }
  }

  #next(): { accountId: number; owner: T; begin: () => void } | undefined {
    for (const [accountId, waiting] of this.#waiting) {
      if ((this.#countOf.get(accountId) ?? 0) >= MOST_OF_ACCOUNT) continue
      const [first] = waiting
      if (first) return { accountId, owner: first[0], begin: first[1] }
    }
    return undefined
  }

  #takeOut(accountId: number, owner: T): void {
    const waiting = this.#waiting.get(accountId)
    waiting?.delete(owner)
    if (waiting?.size === 0) this.#waiting.delete(accountId)
    this.#waitingAt.delete(owner)
  }

  #count(accountId: number, delta: number): void {
    const count = (this.#countOf.get(accountId) ?? 0) + delta
    if (count === 0) this.#countOf.delete(accountId)
    else this.#countOf.set(accountId, count)
  }
}
