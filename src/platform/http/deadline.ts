/**
 * @module One time limit for many short waits. A timer per wait would cost more than most requests; checking all
 * pending waits once a second is enough, since the limit only has to end waits that hang.
 */
import type { Clock } from '#platform/time/clock.ts'

interface PendingWait {
  readonly expiresAtMs: number
  expire(): void
}

const SWEEP_INTERVAL_MS = 1000

export type Deadline = ReturnType<typeof createDeadline>

/** Ends waits after `limitMs`, up to a second late. */
export function createDeadline(clock: Pick<Clock, 'monotonicMs' | 'after'>, limitMs: number) {
  // In order of expiry, because all waits have the same limit.
  const waiting = new Set<PendingWait>()
  let isSweeping = false

  const sweepLater = (): void => {
    isSweeping = true
    clock.after(SWEEP_INTERVAL_MS, () => {
      isSweeping = false
      const nowMs = clock.monotonicMs()
      for (const wait of waiting) {
        if (wait.expiresAtMs > nowMs) break
        waiting.delete(wait)
        wait.expire()
      }
      if (waiting.size > 0) sweepLater()
    })
  }

  return {
    /** Settles as `work` does, or rejects with the error of `onExpiry` once the limit has passed. Does not stop the work. */
    within: <T>(work: Promise<T>, onExpiry: () => Error) =>
      new Promise<T>((resolve, reject) => {
        const wait: PendingWait = { expiresAtMs: clock.monotonicMs() + limitMs, expire: () => reject(onExpiry()) }
        waiting.add(wait)
        if (!isSweeping) sweepLater()
        work.then(
          (value) => {
            waiting.delete(wait)
            resolve(value)
          },
          (error) => {
            waiting.delete(wait)
            reject(error)
          },
        )
      }),
  }
}
