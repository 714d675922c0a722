/**
 * @module Runs the works of one owner one after the other, in the order in which they came, and those of different
 * owners side by side. Never refuses one: callers that have a limit look at `countOf`.
 */

interface OwnerQueue {
  /** Resolves when the newest work has ended; holds no result. */
  last: Promise<unknown>
  count: number
}

export class SerialQueue<K> {
  readonly #queues = new Map<K, OwnerQueue>()

  /** Works of an owner that run or wait. */
  countOf(owner: K): number {
    return this.#queues.get(owner)?.count ?? 0
  }

  /** Runs a work when all earlier ones of its owner have ended, however they ended; settles as it does. */
  async run<T>(owner: K, work: () => Promise<T>): Promise<T> {
    const line = this.#queues.get(owner) ?? { last: Promise.resolve(), count: 0 }
    this.#queues.set(owner, line)
    line.count++
    const result = line.last.then(work)
    line.last = result.then(
      () => undefined,
      () => undefined,
    )
    try {
      return await result
    } finally {
      if (--line.count === 0) this.#queues.delete(owner)
    }
  }
}
