/**
 * @module Runs an owner's works one after the other, in order of arrival; different owners' works run concurrently.
 * Never refuses a work: callers with a limit check `countOf`.
 */

interface OwnerQueue {
  /** Resolves when the newest work has ended; holds no result. */
  last: Promise<unknown>
  count: number
}

export class SerialQueue<K> {
  readonly #queues = new Map<K, OwnerQueue>()

  /** An owner's running and waiting works. */
  countOf(owner: K): number {
    return this.#queues.get(owner)?.count ?? 0
  }

  /** Runs a work once all earlier ones of its owner have ended, successfully or not; settles as the work does. */
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
