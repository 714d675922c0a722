/** @module Limits how many tasks run concurrently; further tasks wait in order of arrival. */
export class Slots {
  readonly #max: number
  readonly #maxWaiting: number
  #inUse = 0
  readonly #waiting = new Set<() => void>()

  /** @param maxWaiting when this many tasks wait, further tasks are not run */
  constructor(max: number, maxWaiting = Number.POSITIVE_INFINITY) {
    this.#max = max
    this.#maxWaiting = maxWaiting
  }

  get isIdle(): boolean {
    return this.#inUse === 0
  }

  /**
   * Runs a task once a slot is free. Resolves with undefined, without running the task, when `signal` is aborted first
   * or too many tasks wait.
   */
  async run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.#acquire(signal))) return undefined
    try {
      return await task()
    } finally {
      this.#release()
    }
  }

  #acquire(signal: AbortSignal): Promise<boolean> | boolean {
    if (signal.aborted) return false
    if (this.#inUse < this.#max) {
      this.#inUse++
      return true
    }
    if (this.#waiting.size >= this.#maxWaiting) return false
    return new Promise((resolve) => {
      const end = (isAcquired: boolean): void => {
        this.#waiting.delete(acquire)
        signal.removeEventListener('abort', leave)
        resolve(isAcquired)
      }
      const acquire = () => end(true)
      const leave = () => end(false)
      this.#waiting.add(acquire)
      signal.addEventListener('abort', leave)
    })
  }

  /** Passes the slot to the task that has waited longest, if any. */
  #release(): void {
    const [acquire] = this.#waiting
    if (acquire) acquire()
    else this.#inUse--
  }
}
