/**
 * @module What limits the messages over a pair: their rate, as a limit in a window of time, and the daily budget of a
 * warm-up, whose state is stored. In no window of the length of a rate, wherever it begins, are more tokens taken than
 * the limit.
 */
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { hasSentFrom } from '#features/sending/queue/queue.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import type { warmUps } from '../tables.ts'

/** Of a limit, what may be taken at once after a pause; the rest flows in evenly, so that any window keeps the limit. */
const BURST_FRACTION = 0.1

export class TokenBucket {
  readonly #windowMs: number
  #limit = 0
  /** The burst. */
  #capacity = 1
  #tokens = 1
  #filledAtMs: number

  /**
   * @param limit tokens in any window; may be a fraction
   * @param windowMs length of the window
   * @param hasBurst whether tokens may be taken at once
   */
  constructor(limit: number, windowMs: number, nowMs: number, hasBurst: boolean) {
    this.#windowMs = windowMs
    this.#filledAtMs = nowMs
    this.setLimit(limit, nowMs)
    this.#tokens = hasBurst ? this.#capacity : 0
  }

  /** Changes the limit. A lower one begins without a burst. */
  setLimit(limit: number, nowMs: number): void {
    this.#fill(nowMs)
    if (limit < this.#limit) this.#tokens = Math.min(this.#tokens, 0)
    this.#limit = limit
    this.#capacity = Math.max(1, Math.ceil(limit * BURST_FRACTION))
    this.#tokens = Math.min(this.#tokens, this.#capacity)
  }

  available(nowMs: number): number {
    this.#fill(nowMs)
    // A sum of fractions may miss a whole number by a rounding error.
    return Math.max(0, Math.floor(this.#tokens + 1e-9))
  }

  /** Gives no token for a time; then they flow in as before, without a burst. */
  pause(ms: number, nowMs: number): void {
    this.#fill(nowMs)
    this.#tokens = Math.min(this.#tokens, 0) - ms * this.#perMs
  }

  take(count: number, nowMs: number): void {
    this.#fill(nowMs)
    this.#tokens -= count
  }

  msUntilToken(nowMs: number): number {
    this.#fill(nowMs)
    const missing = 1 - this.#tokens
    return missing <= 1e-9 ? 0 : Math.ceil(missing / this.#perMs)
  }

  // A half-open window sees at most what is there, and after its first token what flows in: capacity - 1 + window * rate.
  get #perMs(): number {
    return (this.#limit - this.#capacity + 1) / this.#windowMs
  }

  #fill(nowMs: number): void {
    const flowed = Math.max(0, nowMs - this.#filledAtMs) * this.#perMs
    this.#tokens = Math.min(this.#capacity, this.#tokens + flowed)
    this.#filledAtMs = nowMs
  }
}

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
type WarmUpRow = typeof warmUps.$inferSelect

/** What a restart must not lose; the counts are those of `provider_outcomes`. */
export interface WarmUpState extends Readonly<Pick<WarmUpRow, 'day' | 'budget'>> {
  readonly isBlocked: boolean
  readonly tried: number
  readonly accepted: number
  /** Deferred messages. */
  readonly failed: number
}

const NOTHING_TRIED = { tried: 0, accepted: 0, failed: 0, isBlocked: false }

export class WarmUp {
  readonly #endBudget: number
  #state: WarmUpState
  /** Whether the day, its budget or its block is not stored yet. */
  isChanged: boolean

  /** @param perMinute the limit of the provider; 0: none */
  constructor(perMinute: number, now: Millis, state?: WarmUpState) {
    this.isChanged = state === undefined
    this.#endBudget = perMinute * END_MINUTES || DEFAULT_END_BUDGET
    this.#state = state ?? { ...NOTHING_TRIED, day: dayOf(now), budget: Math.min(FIRST_BUDGET, this.#endBudget) }
  }

  stateAt(now: Millis): WarmUpState {
    this.#beginDay(now)
    return this.#state
  }

  /** Messages that may still begin today; infinite when the warm-up has ended. @param inFlight those without an outcome */
  left(isBulk: boolean, inFlight: number, now: Millis): number {
    const { budget, tried } = this.stateAt(now)
    if (budget === null) return Number.POSITIVE_INFINITY
    return Math.floor(budget * (isBulk ? BULK_FRACTION : 1)) - tried - inFlight
  }

  msUntilNextDay(now: Millis): number {
    return days(this.stateAt(now).day + 1) - now
  }

  count(outcome: TrafficOutcome, now: Millis): void {
    this.#beginDay(now)
    const { tried, accepted, failed } = this.#state
    const ifIs = (other: TrafficOutcome) => (outcome === other ? 1 : 0)
    const counted = { tried: tried + 1, accepted: accepted + ifIs('accepted'), failed: failed + ifIs('deferred') }
    this.#state = { ...this.#state, ...counted }
  }

  /** The provider refuses mail because of our address. */
  recordBlock(now: Millis): void {
    this.#beginDay(now)
    const { budget, isBlocked } = this.#state
    if (budget === null || isBlocked) return
    const lowered = Math.max(Math.min(MIN_BUDGET, budget), Math.floor(budget * BLOCK_FACTOR))
    this.#change({ ...this.#state, budget: lowered, isBlocked: true })
  }

  /**
   * Begins the day of `now`. A clock that was set back by up to a day gets no second budget for the same day. One that
   * was set back further had been ahead: its day continues with what is left.
   */
  #beginDay(now: Millis): void {
    const { day, budget, tried, accepted, failed, isBlocked } = this.#state
    const today = dayOf(now)
    if (today === day || today === day - 1 || budget === null) return
    if (today < day) {
      this.#change({ ...this.#state, day: today })
      return
    }
    const isGood =
      !isBlocked && accepted >= budget * MIN_ACCEPTED_FRACTION && failed < Math.max(1, tried * MAX_FAILED_FRACTION)
    const next = isGood ? Math.ceil(budget * GROWTH) : budget
    this.#change({ ...NOTHING_TRIED, day: today, budget: next >= this.#endBudget ? null : next })
  }

  #change(state: WarmUpState): void {
    this.#state = state
    this.isChanged = true
  }
}

/** SQL: how often an outcome was counted, 0 without rows. */
export const sumOf = (outcome: TrafficOutcome | 'complaints'): string =>
  `coalesce(sum(count) FILTER (WHERE outcome = '${outcome}'), 0)`

const sql = prepareStatements((db) => ({
  find: db.prepare<Omit<WarmUpState, 'isBlocked'> & { readonly isBlocked: number }, [string, string]>(
    `SELECT w.day, budget, w.is_blocked AS isBlocked, ${sumOf('accepted')} AS accepted, ${sumOf('deferred')} AS failed,
     ${sumOf('accepted')} + ${sumOf('deferred')} + ${sumOf('refused')} AS tried
     FROM warm_ups w LEFT JOIN provider_outcomes USING (day, source, provider) WHERE w.provider = ? AND w.source = ? GROUP BY w.day`,
  ),
  save: db.prepare<unknown, [WarmUpRow]>(
    `INSERT OR REPLACE INTO warm_ups (provider, source, day, budget, is_blocked)
     VALUES ($provider, $source, $day, $budget, $isBlocked)`,
  ),
  verified: db.prepare<{ n: number }, []>('SELECT 1 AS n FROM domains WHERE verified_at IS NOT NULL LIMIT 1'),
}))

/** In place of a provider: the row says whether the address itself is new (budget 0) or sent before (null). */
const WHOLE_SOURCE = ''

export function findWarmUp({ db }: Pick<App, 'db'>, provider: string, source: string): WarmUpState | undefined {
  const row = sql(db).find.get(provider, source)
  return row ? { ...row, isBlocked: row.isBlocked === 1 } : undefined
}

export function saveWarmUp(
  tx: Tx,
  provider: string,
  source: string,
  { day, budget, isBlocked }: Pick<WarmUpState, 'day' | 'budget' | 'isBlocked'>,
): void {
  sql(tx.db).save.run({ provider, source, day, budget, isBlocked: isBlocked ? 1 : 0 })
}

/** Whether an address needs no warm-up: mail had left from it when it was configured. `undefined` until `recordSources` has run. */
export const isEstablished = (app: Pick<App, 'db'>, source: string): boolean | undefined => {
  const row = findWarmUp(app, WHOLE_SOURCE, source)
  return row && row.budget === null
}

/** Records for each address that is configured for the first time whether mail has left from it before. */
export async function recordSources(
  app: Pick<App, 'clock' | 'commit' | 'db'>,
  sources: readonly string[],
): Promise<void> {
  const unknown = sources.filter((source) => isEstablished(app, source) === undefined)
  if (unknown.length === 0) return
  await app.commit.writeFromReserve((tx) => {
    for (const source of unknown) {
      const budget = hasSentFrom(tx.db, source) ? null : 0
      // With the first domain, the SPF record is published for this address as well.
      const day = sql(tx.db).verified.get() ? dayOf(app.clock.now()) : 0
      saveWarmUp(tx, WHOLE_SOURCE, source, { isBlocked: false, day, budget })
    }
  })
}

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
export const NO_COUNTS: TrafficCounts = { attempted: 0, accepted: 0, deferred: 0, refused: 0 }

/** Counts the outcomes of the attempts of a pair over the last day, in memory: one entry per 5 minutes. */
export class Traffic {
  /** By the number of their 5 minutes, oldest first. */
  readonly #slots = new Map<number, Counts>()

  count(outcome: TrafficOutcome, now: Millis): void {
    const slot = Math.floor(now / SLOT_MS)
    let counts = this.#slots.get(slot)
    if (!counts) {
      counts = { ...NO_COUNTS }
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
    const sum = { ...NO_COUNTS }
    for (const [slot, counts] of this.#slots) {
      if (slot <= last - windowMs / SLOT_MS || slot > last) continue
      for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += counts[name]
    }
    return sum
  }
}
