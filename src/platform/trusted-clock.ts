/**
 * @module The clock of the service: the wall clock, except that a jump of days ahead has to stand for a day before it is believed. Such a clock
 * is wrong more often than right, and what went by it (mail that expired or was released, data removed for its age) does not come back with the right
 * time. Logs every jump, and emits `setBack` when the wall clock went back, so that what was put off under a wrong time can be made due.
 */
import type { Clock, Millis, Timer } from './clock.ts'
import type { Log } from './log.ts'
import { createSignal, type Signal } from './signal.ts'
import { days, hours, minutes } from './units.ts'

export interface TrustedClockOptions {
  readonly log: Pick<Log, 'warn' | 'info'>
  /** What `provenNow` gave at a recent time of the last run; undefined in a new data directory. */
  readonly lastRunAt: Millis | undefined
}

/** How far the wall clock may jump ahead of the monotonic one and be believed at once: further than any correction, less than most expiries. */
export const MAX_STEP_MS = days(2)
/** Of running time that a clock further ahead has to stand. */
const PROBATION_MS = days(1)
/** Smaller steps are corrections, and are not logged. */
const MIN_JUMP_MS = minutes(1)

interface Reading {
  readonly at: Millis
  readonly monotonicMs: number
}

/** A clock over another one; reads it at each call and starts nothing. */
export class TrustedClock implements Clock {
  readonly #clock: Clock
  readonly #log: TrustedClockOptions['log']
  readonly #lastRunAt: TrustedClockOptions['lastRunAt']
  /** The wall clock went back by more than a minute. Emitted after the code that noticed it. */
  readonly setBack: Signal<void> = createSignal()
  readonly #sleptSinceMs: () => number
  /** The last reading that was believed. */
  #last: Reading
  /** Since when the wall clock is too far ahead, by the monotonic one. */
  #doubtedSinceMs: number | undefined
  /** The end of the last run, until it is proven that the clock is right to be so far from it. */
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

  /** Whether a jump ahead is believed. */
  #acceptsJump(wall: Millis, jumpMs: number, monotonicMs: number): boolean {
    const facts = { clock: new Date(wall).toISOString(), aheadHours: Math.round(jumpMs / hours(1)) }
    // A time before the end of the last run is certainly wrong: a machine without a battery starts so until NTP sets it.
    const wasBehind = this.#lastRunAt !== undefined && wall - jumpMs < this.#lastRunAt && wall >= this.#lastRunAt
    if (wasBehind || (this.#doubtedSinceMs === undefined && jumpMs - this.#sleptSinceMs() <= MAX_STEP_MS)) {
      this.#log.warn(facts, 'the clock jumped ahead')
      return true
    }
    if (this.#doubtedSinceMs === undefined) {
      this.#doubtedSinceMs = monotonicMs
      this.#log.warn(
        facts,
        'the clock jumped days ahead; it is not believed until it has stood for a day. If it is right, restart the service',
      )
    }
    if (monotonicMs - this.#doubtedSinceMs < PROBATION_MS) return false
    this.#log.warn(facts, 'the clock has stood days ahead for a day; it is believed now')
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
      this.#log.warn({ clock: new Date(wall).toISOString() }, 'the clock is right again')
    // Not by the monotonic clock: where that was wrong too, it has gone back with the other.
    const backMs = this.#last.at - wall
    this.#doubtedSinceMs = undefined
    this.#last = { at: wall, monotonicMs }
    if (backMs > MIN_JUMP_MS) {
      this.#log.warn(
        { clock: new Date(wall).toISOString(), backHours: Math.round(backMs / hours(1)) },
        'the clock was set back',
      )
      queueMicrotask(() => this.setBack.emit())
    }
    return wall
  }

  /**
   * The time by which things are removed for good. As `now`, but after a start further ahead of the last run than a jump may be, that of the last run,
   * until the service has run for a day: a clock that is wrong at the start looks like a long time off.
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
          'the clock is days ahead of the last run; until the service has run with it for a day, nothing is removed for its age',
        )
      this.#isStartLogged = true
      return Math.round(this.#lastRun.at + runMs)
    }
    // A clock that is behind is wrong, and so may be the time that it is set to.
    if (aheadMs >= -MIN_JUMP_MS || runMs >= PROBATION_MS) this.#lastRun = undefined
    return at
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

/** How long the machine was asleep since it was last asked: the monotonic clock stands still meanwhile, so that waking up looks like a jump ahead. */
function createSleepMeter(clock: Clock): () => number {
  const sleptMs = () => clock.sinceBootMs() - clock.monotonicMs()
  let known = sleptMs()
  return () => {
    const before = known
    known = sleptMs()
    return known - before
  }
}
