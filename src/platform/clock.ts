/**
 * @module The only place that reads the time or sets a timer. Everything else gets a `Clock`, so that tests decide what time it is.
 */
import { uptime } from 'node:os'

/** Milliseconds since the Unix epoch, UTC. */
export type Millis = number

export interface Timer {
  /** Ends the timer; a timer that has fired or was cancelled ignores it. */
  cancel(): void
}

export interface Clock {
  /** Wall clock, in ms since the epoch. May jump. */
  now(): Millis
  /** Monotonic milliseconds, for durations only. */
  monotonicMs(): number
  /** Milliseconds since the machine was started, those asleep included; exact to a second. */
  sinceBootMs(): number
  /** Calls `run` once after `delayMs`. The timer never keeps the process alive. */
  after(delayMs: number, run: () => void): Timer
  /** Resolves after `delayMs`. */
  sleep(delayMs: number): Promise<void>
}

/** Resolves when everything else that waits for the event loop has had its turn: for work in pieces, so that requests get in between. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * Gives each of many who work in pieces a turn of the event loop of its own, first come, first served: however many there are, a request waits for one
 * piece, not for one of each.
 */
export function createFairYield(): () => Promise<void> {
  let last = Promise.resolve()
  return () => {
    last = last.then(yieldToEventLoop)
    return last
  }
}

/** setTimeout fires at once above this; a longer wait is made of several. */
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
