/**
 * @module Decides which failed attempts at a webhook count, and how long the webhook rests after one. The invariant: a failure counts only when no
 * success of its webhook began after it, and attempts that were in flight together count once. So ten counted failures are ten attempts one after the
 * other, and what may pass within seconds never makes ten of them. Pure; stores nothing.
 */
import type { Millis } from '#platform/clock.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { seconds } from '#platform/units.ts'
import type { Webhook } from './webhooks.ts'

/** A webhook rests 1, 2, 4 … 60 seconds. */
const BACKOFF = { minMs: seconds(1), maxMs: seconds(60) }

/**
 * What a failure means. `refuted`: a success began after it. `known`: it was in flight when a failure before it became known. `new`: the endpoint fails, or
 * still fails.
 */
export type FailureKind = 'refuted' | 'known' | 'new'

export class Streak {
  /** Attempts begun so far; each has its number. */
  #begun = 0
  /** The last to begin of those that succeeded. */
  #lastSuccess = 0
  /** Attempts up to this one began before the last new failure was known. */
  #known = 0
  #backoffs = 0
  #backoffUntilMs = Number.NEGATIVE_INFINITY

  /** A restart finds the failures in the row, and rests for what is left: otherwise a service that dies again and again would try without a rest. */
  constructor(
    { failureCount, lastFailureAt }: Pick<Webhook, 'failureCount' | 'lastFailureAt'>,
    now: Millis,
    nowMs: number,
  ) {
    this.#backoffs = failureCount
    if (failureCount === 0 || lastFailureAt === null) return
    const backoffMs = backoffDelayMs(failureCount, BACKOFF)
    const leftMs = lastFailureAt + backoffMs - now
    // The clock may have been set back since then.
    this.#backoffUntilMs = nowMs + Math.min(leftMs, backoffMs)
  }

  /** An attempt begins. Returns its number. */
  begin(): number {
    return ++this.#begun
  }

  /** Any success ends the streak and the rest. */
  succeed(attemptNumber: number): void {
    this.#lastSuccess = Math.max(this.#lastSuccess, attemptNumber)
    this.#known = 0
    this.#backoffs = 0
    this.#backoffUntilMs = Number.NEGATIVE_INFINITY
  }

  /** @param rests whether it may pass, so that the next attempt has to wait */
  fail(attemptNumber: number, shouldBackOff: boolean, nowMs: number): FailureKind {
    if (attemptNumber < this.#lastSuccess) return 'refuted'
    if (attemptNumber <= this.#known) return 'known'
    this.#known = this.#begun
    if (shouldBackOff) this.#backoffUntilMs = nowMs + backoffDelayMs(++this.#backoffs, BACKOFF)
    return 'new'
  }

  /** How long no attempt may begin; 0 when one may. */
  backoffLeftMs(nowMs: number): number {
    return Math.max(0, this.#backoffUntilMs - nowMs)
  }
}
