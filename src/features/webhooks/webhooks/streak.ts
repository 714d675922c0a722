/**
 * @module Decides which failed attempts of a webhook count, and how long to back off after one. The invariant: a
 * failure counts only if no success began after it, and attempts in flight together count once. So ten counted failures
 * are ten successive attempts, and a disturbance of a few seconds never counts as ten. Pure; stores nothing.
 */
import type { Millis } from '#platform/clock.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { seconds } from '#platform/units.ts'
import type { Webhook } from './webhooks.ts'

/** Backoff of 1, 2, 4 … 60 seconds. */
const BACKOFF = { minMs: seconds(1), maxMs: seconds(60) }

/**
 * The meaning of a failure. `refuted`: a later attempt succeeded. `known`: the attempt was already in flight when an
 * earlier failure became known. `new`: the endpoint fails, or still fails.
 */
export type FailureKind = 'refuted' | 'known' | 'new'

export class Streak {
  /** Number of attempts begun; also the number of the latest. */
  #begun = 0
  /** Number of the latest successful attempt. */
  #lastSuccess = 0
  /** Attempts up to this number began before the last new failure was known. */
  #known = 0
  #backoffs = 0
  #backoffUntilMs = Number.NEGATIVE_INFINITY

  /**
   * Restores failures and the remaining backoff from the row after a restart. Otherwise a service that crashes
   * repeatedly would retry without a backoff.
   */
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

  /** Begins an attempt. Returns its number. */
  begin(): number {
    return ++this.#begun
  }

  /** Any success ends the streak and the backoff. */
  succeed(attemptNumber: number): void {
    this.#lastSuccess = Math.max(this.#lastSuccess, attemptNumber)
    this.#known = 0
    this.#backoffs = 0
    this.#backoffUntilMs = Number.NEGATIVE_INFINITY
  }

  /** @param shouldBackOff whether the failure is temporary, so that the next attempt must wait */
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
