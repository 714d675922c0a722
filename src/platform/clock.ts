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
export const giveWay = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * Gives each of many who work in pieces a turn of the event loop of its own, first come, first served: however many there are, a request waits for one
 * piece, not for one of each.
 */
export function createTurns(): () => Promise<void> {
  let last = Promise.resolve()
  return () => {
    last = last.then(giveWay)
    return last
  }
}

/** setTimeout fires at once above this; a longer wait is made of several. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sinceBootMs: () => uptime() * 1000,
  after(delayMs, run) {
    let handle: ReturnType<typeof setTimeout>
    const arm = (leftMs: number) => {
      handle = setTimeout(
        () => (leftMs > LONGEST_TIMER_MS ? arm(leftMs - LONGEST_TIMER_MS) : run()),
        Math.min(Math.max(leftMs, 0), LONGEST_TIMER_MS),
      )
      handle.unref()
    }
    arm(delayMs)
    return { cancel: () => clearTimeout(handle) }
  },
  sleep: (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs)),
}

/** A clock that stands still until `advance` moves it; timers fire in order of their time. For tests. */
export class ManualClock implements Clock {
  #now: Millis
  #monotonicMs = 0
  #timers: { at: Millis; run: () => void }[] = []

  constructor(start: Millis = Date.UTC(2026, 0, 1)) {
    this.#now = start
  }

  now(): Millis {
    return this.#now
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  sinceBootMs(): number {
    return this.#monotonicMs
  }

  after(delayMs: number, run: () => void): Timer {
    const timer = { at: this.#monotonicMs + Math.max(delayMs, 0), run }
    this.#timers.push(timer)
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((t) => t !== timer)
      },
    }
  }

  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(delayMs, resolve)
    })
  }

  /** Moves the time forward by `byMs` and fires what became due, also timers that fired timers set. */
  advance(byMs: number): void {
    const until = this.#monotonicMs + byMs
    for (;;) {
      const next = this.#timers.filter((t) => t.at <= until).sort((a, b) => a.at - b.at)[0]
      if (!next) break
      this.#timers = this.#timers.filter((t) => t !== next)
      this.#passTo(next.at)
      next.run()
    }
    this.#passTo(until)
  }

  #passTo(monotonicMs: number): void {
    this.#now += monotonicMs - this.#monotonicMs
    this.#monotonicMs = monotonicMs
  }

  /** Sets the wall clock without firing anything: a jump, as NTP or a resumed machine makes it. */
  jumpTo(now: Millis): void {
    this.#now = now
  }
}
