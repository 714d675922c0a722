/**
 * @module Runs an owner's tasks one after the other, in order of arrival; different owners' tasks run concurrently.
 * Never refuses a task: callers with a limit check `countOf`.
 */

interface OwnerQueue {
  /** Resolves when the newest task has ended; holds no result. */
  last: Promise<unknown>
  count: number
}

export class SerialQueue<K> {
  readonly #queues = new Map<K, OwnerQueue>()

  /** Number of an owner's running and waiting tasks. */
  countOf(owner: K): number {
    return this.#queues.get(owner)?.count ?? 0
  }

  /** Runs a task once all earlier tasks of its owner have ended, successfully or not; settles as the task does. */
  async run<T>(owner: K, task: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(owner) ?? { last: Promise.resolve(), count: 0 }
    this.#queues.set(owner, queue)
    queue.count++
    const result = queue.last.then(task)
    queue.last = result.then(
      () => undefined,
      () => undefined,
    )
    try {
      return await result
    } finally {
      if (--queue.count === 0) this.#queues.delete(owner)
    }
  }
}
