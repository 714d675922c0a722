/**
 * @module The only module that reads the time or sets a timer. All other code gets a `Clock`, so tests control the
 * time.
 */
import { uptime } from 'node:os'
import type { Millis } from '../units.ts'

export interface Timer {
  /** Cancels the timer; does nothing if it has fired or was cancelled. */
  cancel(): void
}

export interface Clock {
  /** Wall clock, in ms since the epoch. May jump. */
  now(): Millis
  /** Monotonic milliseconds, for durations only. */
  monotonicMs(): number
  /** Milliseconds since the machine booted, including sleep; exact to a second. */
  sinceBootMs(): number
  /** Calls `run` once after `delayMs`. The timer never keeps the process alive. */
  after(delayMs: number, run: () => void): Timer
  /** Resolves after `delayMs`. */
  sleep(delayMs: number): Promise<void>
}

/** Resolves in the next tick, after pending I/O. Long work calls this between its pieces, so that requests can run. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * Creates a function whose callers wait for one tick each, one after the other. So only one caller's piece of work runs
 * between two ticks, and a request waits for that piece, not for one piece of each caller.
 */
export function createFairYield(): () => Promise<void> {
  let last = Promise.resolve()
  return () => {
    last = last.then(yieldToEventLoop)
    return last
  }
}

/** Resolves after `delayMs`, or as soon as `ending` is aborted. */
export async function sleepUntilAborted(
  clock: Pick<Clock, 'sleep'>,
  delayMs: number,
  ending: AbortSignal,
): Promise<void> {
  if (ending.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const onAbort = (): void => resolve()
  ending.addEventListener('abort', onAbort)
  await Promise.race([clock.sleep(delayMs), promise])
  ending.removeEventListener('abort', onAbort)
}

/** Settles as `work` does, or rejects with the error of `onExpiry` after `limitMs`. Does not stop the work. */
export function limitTime<T>(
  clock: Pick<Clock, 'after'>,
  limitMs: number,
  work: Promise<T>,
  onExpiry: () => Error,
): Promise<T> {
  const { promise: expiry, reject } = Promise.withResolvers<never>()
  const timer = clock.after(limitMs, () => reject(onExpiry()))
  return Promise.race([work, expiry]).finally(() => timer.cancel())
}

/**
 * Maximum delay of one setTimeout, which fires immediately when the delay is longer. So a longer wait uses several
 * timers, one after the other.
 */
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sinceBootMs: () => uptime() * 1000,
  after(delayMs, run) {
    let handle: ReturnType<typeof setTimeout>
    const arm = (leftMs: number) => {
      handle = setTimeout(
        () => (leftMs > MAX_TIMER_MS ? arm(leftMs - MAX_TIMER_MS) : run()),
        Math.min(Math.max(leftMs, 0), MAX_TIMER_MS),
      )
      handle.unref()
    }
    arm(delayMs)
    return { cancel: () => clearTimeout(handle) }
  },
  sleep: (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs)),
}
