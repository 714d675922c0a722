/**
 * @module The warm-up of a pair: a new outgoing address may send a provider few messages a day at first, and more after
 * each good day, because receivers distrust addresses that they do not know. Days are those of UTC. Never waits or
 * stores.
 */
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import type { TrafficOutcome } from './traffic.ts'

/** Messages on the first day. */
const FIRST_BUDGET = 50
/** A budget never falls below this, so that a pair can show that it has improved. */
const MIN_BUDGET = 20
/** After a good day: at least half of the budget was accepted, and less than 2 % of the messages were deferred. */
const GROWTH = 1.4
const MIN_ACCEPTED_FRACTION = 0.5
const MAX_FAILED_FRACTION = 0.02
/** At once after a suspension, at most once a day. */
const BLOCK_FACTOR = 0.5
/** What broadcasts may use of a budget, so that other mail finds some of it left. */
const BULK_FRACTION = 0.8
/** A warm-up ends when the budget is as much as the limit of the provider allows in so many minutes. */
const END_MINUTES = 60
/** Where it ends for a provider without a limit. */
const DEFAULT_END_BUDGET = 50_000
/** A crash loses at most this fraction of the messages counted today. */
const STORED_FRACTION = 1 / 50

/** What a restart must not lose. */
export interface WarmUpState {
  /** Days since 1970. */
  readonly day: number
  /** Messages of the day; null: the warm-up has ended. */
  readonly budget: number | null
  readonly tried: number
  readonly accepted: number
  /** Deferred messages. */
  readonly failed: number
  /** Whether the provider suspended the pair on this day. */
  readonly isBlocked: boolean
}

const toDay = (now: Millis): number => Math.floor(now / days(1))

export class WarmUp {
  readonly #endBudget: number
  #state: WarmUpState
  #unstored = 0

  /** @param perMinute the limit of the provider; 0: none */
  constructor(perMinute: number, now: Millis, state?: WarmUpState) {
    this.#endBudget = perMinute * END_MINUTES || DEFAULT_END_BUDGET
    this.#state = state ?? {
      day: toDay(now),
      budget: Math.min(FIRST_BUDGET, this.#endBudget),
      tried: 0,
      accepted: 0,
      failed: 0,
      isBlocked: false,
    }
  }

  stateAt(now: Millis): WarmUpState {
    this.#beginDay(now)
    return this.#state
  }

  /** Whether the state should be stored now. */
  get needsStoring(): boolean {
    return this.#unstored >= Math.max(1, (this.#state.budget ?? 0) * STORED_FRACTION)
  }

  /** Whether the stored state is not the latest. */
  get isChanged(): boolean {
    return this.#unstored > 0
  }

  markStored(): void {
    this.#unstored = 0
  }

  /** Messages that may still begin today; infinite when the warm-up has ended. @param inFlight those without an outcome */
  left(isBulk: boolean, inFlight: number, now: Millis): number {
    const { budget, tried } = this.stateAt(now)
    if (budget === null) return Number.POSITIVE_INFINITY
    return Math.floor(budget * (isBulk ? BULK_FRACTION : 1)) - tried - inFlight
  }

  /** Milliseconds until the next budget. */
  msUntilNextDay(now: Millis): number {
    return days(this.stateAt(now).day + 1) - now
  }

  count(outcome: TrafficOutcome, now: Millis): void {
    this.#beginDay(now)
    const { tried, accepted, failed } = this.#state
    this.#change({
      ...this.#state,
      tried: tried + 1,
      accepted: accepted + (outcome === 'accepted' ? 1 : 0),
      failed: failed + (outcome === 'deferred' ? 1 : 0),
    })
  }

  /** The provider refuses mail because of our address. */
  recordBlock(now: Millis): void {
    this.#beginDay(now)
    const { budget, isBlocked } = this.#state
    if (budget === null || isBlocked) return
    this.#change({
      ...this.#state,
      budget: Math.max(Math.min(MIN_BUDGET, budget), Math.floor(budget * BLOCK_FACTOR)),
      isBlocked: true,
    })
  }

  /**
   * Begins the day of `now`. A clock that was set back by up to a day gets no second budget for the same day. One that
   * was set back further had been ahead: its day continues with what is left.
   */
  #beginDay(now: Millis): void {
    const { day, budget, tried, accepted, failed, isBlocked } = this.#state
    const today = toDay(now)
    if (today === day || today === day - 1 || budget === null) return
    if (today < day) {
      this.#change({ ...this.#state, day: today })
      return
    }
    const isGood =
      !isBlocked && accepted >= budget * MIN_ACCEPTED_FRACTION && failed < Math.max(1, tried * MAX_FAILED_FRACTION)
    const next = isGood ? Math.ceil(budget * GROWTH) : budget
    this.#change({
      day: today,
      budget: next >= this.#endBudget ? null : next,
      tried: 0,
      accepted: 0,
      failed: 0,
      isBlocked: false,
    })
  }

  #change(state: WarmUpState): void {
    this.#state = state
    this.#unstored++
  }
}
