/** @module A clock for tests that only moves when a test moves it. */
import type { Clock, Timer } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'

/** A clock that only `advance` moves; timers fire in order of their time. For tests. */
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

  /** Time until the next timer fires; infinite when there is none. */
  msUntilNextTimer(): number {
    return this.#timers.reduce((leastMs, { at }) => Math.min(leastMs, at - this.#monotonicMs), Number.POSITIVE_INFINITY)
  }

  /** Moves the time forward by `byMs` and fires due timers, including those that fired timers set. */
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

  /** Sets the wall clock without firing timers: a jump, as caused by NTP or a resumed machine. */
  jumpTo(now: Millis): void {
    this.#now = now
  }
}
