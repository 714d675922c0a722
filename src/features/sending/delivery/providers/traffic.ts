/** @module Counts the outcomes of the attempts of a pair over the last day, in memory. Bounded: one entry per 5 minutes. */
import type { Millis } from '#platform/time/clock.ts'
import { hours, minutes } from '#platform/units.ts'

export interface TrafficCounts {
  /** Attempts that got as far as a connection or a failure to connect. */
  readonly attempted: number
  readonly accepted: number
  /** Attempts that are made again. */
  readonly deferred: number
  /** Attempts that the provider rejected permanently. */
  readonly refused: number
}

export type TrafficOutcome = Exclude<keyof TrafficCounts, 'attempted'>

const SLOT_MS = minutes(5)

type Counts = { -readonly [K in keyof TrafficCounts]: number }

export class Traffic {
  /** By the number of their 5 minutes, oldest first. */
  readonly #slots = new Map<number, Counts>()

  count(outcome: TrafficOutcome, now: Millis): void {
    const slot = Math.floor(now / SLOT_MS)
    let counts = this.#slots.get(slot)
    if (!counts) {
      counts = { attempted: 0, accepted: 0, deferred: 0, refused: 0 }
      this.#slots.set(slot, counts)
      // Times after now were counted under a fast clock.
      for (const old of this.#slots.keys()) if (old <= slot - hours(24) / SLOT_MS || old > slot) this.#slots.delete(old)
    }
    counts.attempted++
    counts[outcome]++
  }

  /** The counts of the last `windowMs`, at most a day, in steps of 5 minutes. */
  sum(windowMs: number, now: Millis): TrafficCounts {
    const last = Math.floor(now / SLOT_MS)
    const sum = { attempted: 0, accepted: 0, deferred: 0, refused: 0 }
    for (const [slot, counts] of this.#slots) {
      if (slot <= last - windowMs / SLOT_MS || slot > last) continue
      sum.attempted += counts.attempted
      sum.accepted += counts.accepted
      sum.deferred += counts.deferred
      sum.refused += counts.refused
    }
    return sum
  }

  /** Whether nothing was counted in the last `windowMs`. */
  isQuiet(windowMs: number, now: Millis): boolean {
    return this.sum(windowMs, now).attempted === 0
  }
}
