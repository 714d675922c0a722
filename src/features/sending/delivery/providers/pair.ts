/**
 * @module The state of a pair, that is of a provider and one of our outgoing addresses: how many messages may begin
 * now, how far its rate is lowered, and until when it is suspended. Never claims, stores or wakes anything.
 *
 * suspension: no message begins until it ends; then one does, the probe. If the provider accepts it, or rejects it for
 * a reason of its own, the suspension is lifted; otherwise it lasts longer.
 *
 * rate factor: the fraction of the limits in use. A reply that asks for less halves it; accepted messages raise it, fast
 * up to a tenth below the rate that was rejected, then slowly.
 */
import { dayOf } from '#features/core/events/daily-stats.ts'
import type { LaneClass } from '#features/sending/queue/lanes.ts'
import { hours, type Millis, minutes, seconds } from '#platform/units.ts'
import { TokenBucket, Traffic, type TrafficOutcome, type WarmUp } from './limits.ts'
import type { Provider } from './registry.ts'
import { CLAIMED_PER_CONNECTION, SITE_RULES, SlotPool } from './slot-pool.ts'

export interface Suspension {
  /** The rule of the reply that began or prolonged it. */
  readonly rule: string
  readonly reason: string
  readonly since: Millis
  readonly until: Millis
  /** Length of the last period. */
  readonly durationMs: number
  /** Suspensions and rejected probes in a row. */
  readonly failures: number
}

/** What a restart must not lose. */
export interface PairState {
  readonly factor: number
  /** Messages a minute that the provider was found to refuse; undefined while its policy alone limits it. */
  readonly learnedPerMinute: number | undefined
  readonly suspension: Suspension | undefined
}

const NORMAL: PairState = { factor: 1, learnedPerMinute: undefined, suspension: undefined }

/** The times of a decision: the wall clock for what is stored, monotonic time for rates. */
export interface Instant {
  readonly now: Millis
  readonly monotonicMs: number
}

const MIN_FACTOR = 1 / 64
/** The rate after a suspension: the whole queue at once would be refused again. */
const FACTOR_AFTER_SUSPENSION = 1 / 4
const RECOVERY_STEP = 1.5
/** A step of recovery needs this many accepted messages, or half of what may leave in a minute, and this much time. */
const RECOVERY_SUCCESSES = 10
const RECOVERY_INTERVAL_MS = minutes(1)
/** Recovery stops short of the rate that was rejected last, and goes beyond it in a small step after a longer time. */
const SAFE_FRACTION = 0.9
const CAREFUL_STEP = 1.15
const CAREFUL_INTERVAL_MS = minutes(10)
/**
 * Receivers count messages in windows of about a minute: what they reject within a minute after the rate was lowered says
 * nothing about the lower one. So the rate is lowered once in that time, and each rejection is followed by a pause.
 */
const REJECTION_WINDOW_MS = minutes(1)
const PAUSE_MS = seconds(15)
/** Bounds of a learned limit: a receiver that takes fewer is suspended, one that takes more needs no limit. */
const MIN_LEARNED_PER_MINUTE = 60
const MAX_LEARNED_PER_MINUTE = 60_000

/** Probes are at most this far apart, unless the rule itself names a longer time. */
const MAX_PROBE_INTERVAL_MS = hours(1)
const MAX_SUSPENSION_MS = hours(24)
const MAX_REASON_LENGTH = 500

/** Tokens that become available together, so that fast rates do not wake a lane for each message. */
const WAKE_INTERVAL_MS = 50

export class Pair {
  readonly provider: Provider
  /** Our address; empty when the system chooses it. */
  readonly sourceIp: string
  readonly key: string
  readonly slots: SlotPool
  readonly traffic = new Traffic()
  /** Undefined for a pair that needs none, or whose warm-up has ended. */
  warmUp: WarmUp | undefined
  /** Whether the budget of the warm-up holds only broadcasts back. */
  isWarmUpForBulk = true
  #state = NORMAL
  /** Number of the state: outcomes of attempts that were claimed under an earlier one change nothing. */
  #generation = 0
  #isProbing = false
  #successes = 0
  #changedAtMs = 0
  /** When the rate was last lowered, in monotonic time, and what it was: messages a minute. */
  #loweredAtMs = Number.NEGATIVE_INFINITY
  #rejectedPerMinute: number | undefined
  #perSecond: TokenBucket | undefined
  #perMinute: TokenBucket | undefined
  #minute = 0
  #takenInMinute = 0
  #takenInLastMinute = 0

  /** @param ownerOf the account that a lane's slots are counted for */
  constructor(provider: Provider, sourceIp: string, ownerOf: (lane: string) => number, at: Instant) {
    this.provider = provider
    this.sourceIp = sourceIp
    this.key = keyOfPair(provider.name, sourceIp)
    this.slots = new SlotPool(SITE_RULES, ownerOf)
    this.#raise(this.#state, at)
  }

  get state(): PairState {
    return this.#state
  }

  get generation(): number {
    return this.#generation
  }

  /** Whether the pair is as if it were new. */
  get isNormal(): boolean {
    const { factor, learnedPerMinute, suspension } = this.#state
    return factor === 1 && learnedPerMinute === undefined && suspension === undefined
  }

  /** Connections that may be open at the same time; 0 during a suspension. */
  connections({ now }: Instant): number {
    if (this.suspendedMs(now) > 0) return 0
    return Math.max(1, Math.floor(this.provider.policy.connections * this.#state.factor))
  }

  get #maxSlots(): number {
    return Math.max(1, Math.floor(this.provider.policy.connections * this.#state.factor)) * CLAIMED_PER_CONNECTION
  }

  restore(state: PairState, at: Instant): void {
    this.#change(state, at)
  }

  /** 0: none, or a probe may begin. A longer one than any suspension was computed under a fast clock, and has ended. */
  suspendedMs(now: Millis): Millis {
    const leftMs = (this.#state.suspension?.until ?? 0) - now
    return leftMs > MAX_SUSPENSION_MS ? 0 : Math.max(leftMs, 0)
  }

  /** How many messages may begin now, over all accounts; infinite without a rate limit. */
  allowance({ now, monotonicMs }: Instant): number {
    if (this.suspendedMs(now) > 0) return 0
    if (this.#state.suspension) return this.#isProbing ? 0 : 1
    return Math.min(
      this.#perSecond?.available(monotonicMs) ?? Number.POSITIVE_INFINITY,
      this.#perMinute?.available(monotonicMs) ?? Number.POSITIVE_INFINITY,
    )
  }

  /** Messages that the warm-up still allows today; infinite without one. */
  budgetLeft(isBulk: boolean, now: Millis): number {
    return this.warmUp?.left(isBulk, this.slots.inFlight, now) ?? Number.POSITIVE_INFINITY
  }

  /** Milliseconds for which the budget of the warm-up holds mail back; 0 if it does not. */
  budgetWaitMs(isBulk: boolean, now: Millis): number {
    if (!this.warmUp || (this.isWarmUpForBulk && !isBulk) || this.budgetLeft(isBulk, now) > 0) return 0
    return this.warmUp.msUntilNextDay(now)
  }

  /** The day of an outcome: that of the warm-up, which a clock that is set back does not change. */
  dayOf(now: Millis): number {
    const state = this.warmUp?.stateAt(now)
    return state && state.budget !== null ? state.day : dayOf(now)
  }

  count(outcome: TrafficOutcome, now: Millis): void {
    this.traffic.count(outcome, now)
    this.warmUp?.count(outcome, now)
  }

  /** How many messages of an account may begin now: accounts that wait share the allowance alike, bulk lanes come last. */
  freeFor(owner: number, laneClass: LaneClass, at: Instant, canUse: (owner: number) => boolean): number {
    const isBulk = laneClass === 'bulk'
    const isBudgeted = isBulk || !this.isWarmUpForBulk
    const slots = Math.min(
      this.slots.freeFor(owner, laneClass, this.#maxSlots, canUse),
      isBudgeted ? this.budgetLeft(isBulk, at.now) : Number.POSITIVE_INFINITY,
    )
    const allowance = this.allowance(at)
    if (allowance === Number.POSITIVE_INFINITY || slots <= 0 || allowance <= 0) return Math.min(slots, allowance)
    if (isBulk && this.slots.waiting.hasOrdinary(canUse)) return 0
    const sharers = this.slots.waiting.countSharers(owner, isBulk)
    return Math.min(slots, Math.max(1, Math.floor(allowance / sharers)))
  }

  /** Takes messages from the allowance. The attempts remember `generation`. */
  acquire(count: number, { now, monotonicMs }: Instant): void {
    if (this.#state.suspension && count > 0) this.#isProbing = true
    this.#perSecond?.take(count, monotonicMs)
    this.#perMinute?.take(count, monotonicMs)
    this.#countTaken(count, now)
  }

  /** Returns messages that were taken and not claimed. */
  release(count: number, { now, monotonicMs }: Instant): void {
    // During a suspension only the probe is taken.
    if (count > 0) this.#isProbing = false
    this.#perSecond?.take(-count, monotonicMs)
    this.#perMinute?.take(-count, monotonicMs)
    this.#countTaken(-count, now)
  }

  /** Milliseconds until a message may begin; undefined while a probe is in flight, whose outcome decides. */
  msUntilAllowed({ now, monotonicMs }: Instant): number | undefined {
    const suspendedMs = this.suspendedMs(now)
    if (suspendedMs > 0) return suspendedMs
    if (this.#state.suspension) return this.#isProbing ? undefined : 0
    return Math.max(waitMs(this.#perSecond, monotonicMs), waitMs(this.#perMinute, monotonicMs))
  }

  /** After the end of an attempt, whatever its outcome: if it was the probe, another one may begin. */
  releaseProbe(generation: number): void {
    if (generation === this.#generation) this.#isProbing = false
  }

  /** The provider dealt with a message normally: lifts a suspension, raises a lowered rate. True when that changed. */
  recordSuccess(generation: number, at: Instant): boolean {
    if (generation !== this.#generation) return false
    this.#isProbing = false
    if (this.#state.suspension) {
      this.#change({ ...this.#state, suspension: undefined }, at)
      return true
    }
    if (this.isNormal) return false
    const elapsedMs = at.monotonicMs - this.#changedAtMs
    if (++this.#successes < Math.min(RECOVERY_SUCCESSES, this.#limitPerMinute / 2)) return false
    if (elapsedMs < (this.#isAtSafeRate ? CAREFUL_INTERVAL_MS : RECOVERY_INTERVAL_MS)) return false
    this.#raise(this.#recovered(), at)
    return true
  }

  /** Whether another step would lead to the rate that was rejected last. */
  get #isAtSafeRate(): boolean {
    const rejected = this.#rejectedPerMinute ?? 0
    return this.#limitPerMinute <= rejected && this.#limitPerMinute > rejected * SAFE_FRACTION * (1 - 1e-9)
  }

  #recovered(): PairState {
    const { factor, learnedPerMinute: learned } = this.#state
    const rate = this.#limitPerMinute
    // The rate that was rejected is in use and is not rejected any more.
    if (rate > (this.#rejectedPerMinute ?? 0)) this.#rejectedPerMinute = undefined
    const safeStep = ((this.#rejectedPerMinute ?? Number.POSITIVE_INFINITY) * SAFE_FRACTION) / rate
    const raised = factor * (this.#isAtSafeRate ? CAREFUL_STEP : Math.min(RECOVERY_STEP, safeStep))
    const raisedLimit = learned === undefined ? undefined : learned * Math.max(1, raised)
    return {
      suspension: undefined,
      factor: Math.min(1, raised),
      learnedPerMinute: raisedLimit === undefined || raisedLimit > MAX_LEARNED_PER_MINUTE ? undefined : raisedLimit,
    }
  }

  /** Halves the rate, and begins nothing for a moment; a rejected probe suspends again. True when something changed. */
  slowDown(generation: number, cause: { readonly rule: string; readonly reason: string }, at: Instant): boolean {
    if (generation !== this.#generation) return false
    if (this.#state.suspension) return this.suspend(generation, { ...cause, durationMs: 0 }, at)
    const isRepeated = at.monotonicMs - this.#loweredAtMs < REJECTION_WINDOW_MS
    if (isRepeated) this.#change(this.#state, at)
    else this.#halve(at)
    this.#perMinute?.pause(PAUSE_MS, at.monotonicMs)
    return true
  }

  #halve(at: Instant): void {
    const lowered = this.#lowered(this.#state.factor / 2, at.now)
    const rejected = this.#limitPerMinute
    this.#rejectedPerMinute = rejected === Number.POSITIVE_INFINITY ? lowered.learnedPerMinute : rejected
    this.#loweredAtMs = at.monotonicMs
    this.#change({ ...lowered, suspension: undefined }, at)
  }

  /** Begins a suspension, or lengthens it after its probe. True when something changed. */
  suspend(
    generation: number,
    { rule, reason, durationMs }: { readonly rule: string; readonly reason: string; readonly durationMs: number },
    at: Instant,
  ): boolean {
    if (generation !== this.#generation) return false
    this.warmUp?.recordBlock(at.now)
    const { suspension: previous, factor } = this.#state
    const minMs = Math.max(durationMs, seconds(30))
    const grownMs = previous ? Math.min(previous.durationMs * 2, MAX_PROBE_INTERVAL_MS) : 0
    const nextMs = Math.min(Math.max(minMs, grownMs), MAX_SUSPENSION_MS)
    const suspension: Suspension = {
      rule,
      reason: reason.slice(0, MAX_REASON_LENGTH).toWellFormed(),
      since: previous?.since ?? at.now,
      until: at.now + nextMs,
      durationMs: nextMs,
      failures: (previous?.failures ?? 0) + 1,
    }
    this.#change({ ...this.#lowered(Math.min(factor, FACTOR_AFTER_SUSPENSION), at.now), suspension }, at)
    return true
  }

  /** Ends a suspension and a lowered rate by hand. */
  reset(at: Instant): void {
    this.#rejectedPerMinute = undefined
    this.#loweredAtMs = Number.NEGATIVE_INFINITY
    this.#change(NORMAL, at)
  }

  /** Messages a minute at most, in use now; 0: no limit. */
  get ratePerMinute(): number {
    const limit = this.#limitPerMinute
    return limit === Number.POSITIVE_INFINITY ? 0 : limit
  }

  get #limitPerMinute(): number {
    const { perSecond, perMinute } = this.provider.policy
    const { factor, learnedPerMinute } = this.#state
    const limits = [perSecond * 60, perMinute, learnedPerMinute ?? 0].filter((limit) => limit > 0)
    return Math.min(...limits) * factor
  }

  /** The lowered rate. Without a limit of the policy, the rate of the last minute becomes the limit first. */
  #lowered(factor: number, now: Millis): Omit<PairState, 'suspension'> {
    const { perSecond, perMinute } = this.provider.policy
    this.#countTaken(0, now)
    const seen = Math.max(this.#takenInMinute, this.#takenInLastMinute)
    const learned = Math.min(Math.max(seen, MIN_LEARNED_PER_MINUTE), MAX_LEARNED_PER_MINUTE)
    return {
      factor: Math.max(factor, MIN_FACTOR),
      learnedPerMinute: this.#state.learnedPerMinute ?? (perSecond === 0 && perMinute === 0 ? learned : undefined),
    }
  }

  #countTaken(count: number, now: Millis): void {
    const minute = Math.floor(now / minutes(1))
    if (minute !== this.#minute) {
      this.#takenInLastMinute = minute === this.#minute + 1 ? this.#takenInMinute : 0
      this.#takenInMinute = 0
      this.#minute = minute
    }
    this.#takenInMinute += count
  }

  #change(state: PairState, at: Instant): void {
    this.#generation++
    this.#isProbing = false
    this.#raise(state, at)
  }

  /** Changes the state without a new generation: attempts in flight still count. */
  #raise(state: PairState, { monotonicMs }: Instant): void {
    this.#state = state
    this.#successes = 0
    this.#changedAtMs = monotonicMs
    const { perSecond } = this.provider.policy
    this.#perSecond = this.#resize(this.#perSecond, perSecond * state.factor, seconds(1), monotonicMs)
    this.#perMinute = this.#resize(this.#perMinute, this.ratePerMinute, minutes(1), monotonicMs)
  }

  /** A bucket with this limit; undefined when the limit is 0. A new one of a lowered rate begins without a burst. */
  #resize(bucket: TokenBucket | undefined, limit: number, windowMs: number, nowMs: number): TokenBucket | undefined {
    if (limit === 0) return undefined
    bucket?.setLimit(limit, nowMs)
    return bucket ?? new TokenBucket(limit, windowMs, nowMs, this.isNormal)
  }
}

export const keyOfPair = (provider: string, sourceIp: string): string =>
  sourceIp === '' ? provider : `${provider} from ${sourceIp}`

/** Milliseconds until a bucket has what flows in during `WAKE_INTERVAL_MS`, at least one token. */
const waitMs = (bucket: TokenBucket | undefined, nowMs: number): number =>
  bucket === undefined || bucket.available(nowMs) > 0 ? 0 : Math.max(bucket.msUntilToken(nowMs), WAKE_INTERVAL_MS)
