/**
 * @module The service's clock: the wall clock, except that a jump of several days ahead must persist for a day before
 * it is accepted. A clock that jumps so far is usually wrong, and the effects (mail expired or released, old data
 * deleted) cannot be undone when the time is corrected. Logs every jump, and emits `setBack` when the wall clock goes
 * back, so that work scheduled under a wrong time can become due again.
 */

import type { Log } from '#platform/log/log.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import { createSignal, type Signal } from './signal.ts'

export interface TrustedClockOptions {
  readonly log: Pick<Log, 'warn' | 'info'>
  /** A result of `confirmedNow` from near the end of the last run; undefined in a new data directory. */
  readonly lastRunAt: Millis | undefined
}

/**
 * A jump of the wall clock ahead of the monotonic clock is accepted immediately up to this distance, which is more than
 * any correction and less than most expiries.
 */
export const MAX_STEP_MS = days(2)
/** A larger jump must persist for this long while the service runs. */
const PROBATION_MS = days(1)
/** Smaller steps are corrections and are not logged. */
const MIN_JUMP_MS = minutes(1)

interface Reading {
  readonly at: Millis
  readonly monotonicMs: number
}

/** Wraps another clock; reads it at each call and starts no timer. */
export class TrustedClock implements Clock {
  readonly #clock: Clock
  readonly #log: TrustedClockOptions['log']
  readonly #lastRunAt: TrustedClockOptions['lastRunAt']
  /**
   * Emitted when the wall clock has gone back by more than a minute; listeners run after the code that read the clock.
   */
  readonly setBack: Signal<void> = createSignal()
  readonly #sleptSinceMs: () => number
  #last: Reading
  /** When the wall clock was first too far ahead, in the time of the monotonic clock. */
  #doubtedSinceMs: number | undefined
  /** The end of the last run; undefined once the time that has passed since then is confirmed. */
  #lastRun: Reading | undefined
  #isStartLogged = false

  constructor(clock: Clock, { log, lastRunAt }: TrustedClockOptions) {
    this.#clock = clock
    this.#log = log
    this.#lastRunAt = lastRunAt
    this.#sleptSinceMs = createSleepMeter(clock)
    this.#last = { at: clock.now(), monotonicMs: clock.monotonicMs() }
    this.#lastRun = lastRunAt === undefined ? undefined : { at: lastRunAt, monotonicMs: this.#last.monotonicMs }
  }

  /** Whether a jump ahead is accepted. */
  #acceptsJump(wall: Millis, jumpMs: number, monotonicMs: number): boolean {
    const facts = { clock: new Date(wall).toISOString(), aheadHours: Math.round(jumpMs / hours(1)) }
    // If the clock showed a time before the end of the last run, it was certainly wrong: a machine without a battery
    // starts like that until NTP sets the clock. So the jump is the correction.
    const wasBehind = this.#lastRunAt !== undefined && wall - jumpMs < this.#lastRunAt && wall >= this.#lastRunAt
    if (wasBehind || (this.#doubtedSinceMs === undefined && jumpMs - this.#sleptSinceMs() <= MAX_STEP_MS)) {
      this.#log.warn(facts, 'clock jumped ahead')
      return true
    }
    if (this.#doubtedSinceMs === undefined) {
      this.#doubtedSinceMs = monotonicMs
      this.#log.warn(
        facts,
        'clock jumped days ahead: not accepted until it has persisted for a day; if it is right, restart the service',
      )
    }
    if (monotonicMs - this.#doubtedSinceMs < PROBATION_MS) return false
    this.#log.warn(facts, 'clock accepted: it has been days ahead for a day')
    return true
  }

  now(): Millis {
    const wall = this.#clock.now()
    const monotonicMs = this.#clock.monotonicMs()
    const expected = Math.round(this.#last.at + monotonicMs - this.#last.monotonicMs)
    const jumpMs = wall - expected
    if (jumpMs > (this.#doubtedSinceMs === undefined ? MIN_JUMP_MS : MAX_STEP_MS)) {
      if (!this.#acceptsJump(wall, jumpMs, monotonicMs)) return expected
    } else if (this.#doubtedSinceMs !== undefined)
      this.#log.warn({ clock: new Date(wall).toISOString() }, 'clock is right again')
    // Measured from the last accepted wall time, not from the expected time: that comes from the monotonic clock, which
    // may have been wrong as well.
    const backMs = this.#last.at - wall
    this.#doubtedSinceMs = undefined
    this.#last = { at: wall, monotonicMs }
    if (backMs > MIN_JUMP_MS) {
      this.#log.warn(
        { clock: new Date(wall).toISOString(), backHours: Math.round(backMs / hours(1)) },
        'clock was set back',
      )
      queueMicrotask(() => this.setBack.emit())
    }
    return wall
  }

  /**
   * The time for permanent deletions. Usually equals `now`. The exception is a start so far after the last run that
   * such a jump would not be accepted: the returned time then continues from the last run's time until the service has
   * run for a day, because a wrong clock at the start looks like a long downtime.
   */
  confirmedNow(): Millis {
    const at = this.now()
    if (!this.#lastRun) return at
    const runMs = this.#clock.monotonicMs() - this.#lastRun.monotonicMs
    const aheadMs = at - (this.#lastRun.at + runMs)
    if (aheadMs > MAX_STEP_MS && runMs < PROBATION_MS) {
      if (!this.#isStartLogged)
        this.#log.warn(
          { clock: new Date(at).toISOString(), aheadDays: Math.floor(aheadMs / days(1)) },
          'clock is days ahead of the last run: no data is deleted because of its age until the service has run for a day',
        )
      this.#isStartLogged = true
      return Math.round(this.#lastRun.at + runMs)
    }
    // A clock behind the last run is wrong, and it may be corrected to another wrong time, so the last run's time is
    // kept.
    if (aheadMs >= -MIN_JUMP_MS || runMs >= PROBATION_MS) this.#lastRun = undefined
    return at
  }

  /** How far the wall clock is ahead while that is not accepted; undefined while it is. */
  aheadMs(): number | undefined {
    const at = this.now()
    return this.#doubtedSinceMs === undefined ? undefined : this.#clock.now() - at
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs()
  }

  sinceBootMs(): number {
    return this.#clock.sinceBootMs()
  }

  after(delayMs: number, run: () => void): Timer {
    return this.#clock.after(delayMs, run)
  }

  sleep(delayMs: number): Promise<void> {
    return this.#clock.sleep(delayMs)
  }
}

/**
 * Returns how long the machine has slept since the last call: the monotonic clock stops during sleep, so waking up
 * looks like a jump ahead.
 */
function createSleepMeter(clock: Clock): () => number {
  const sleptMs = () => clock.sinceBootMs() - clock.monotonicMs()
  let known = sleptMs()
  return () => {
    const before = known
    known = sleptMs()
    return known - before
  }
}
