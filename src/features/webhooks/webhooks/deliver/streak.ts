/**
 * @module Decides which failed attempts of a webhook count, and how long to back off after one. The invariants: a
 * failure counts only if no success began after it, and attempts in flight together count once, as do those that begin
 * before the backoff has ended. So ten counted failures are ten successive attempts over more than an hour. Pure; stores
 * nothing.
 */

import { backoffDelayMs } from '#platform/queue/backoff.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { Webhook } from '../manage/webhooks.ts'
import type { AttemptResult } from './attempt.ts'
import { BACKOFF, OWN_FAILURE_BACKOFF } from './retry-schedule.ts'

/**
 * The meaning of a failure. `refuted`: a later attempt succeeded. `known`: the attempt began before the last counted
 * failure was known, or before the backoff had ended. `new`: the endpoint fails, or still fails.
 */
export type FailureKind = 'refuted' | 'known' | 'new'

export class Streak {
  /** Number of attempts begun; also the number of the latest. */
  #begun = 0
  /** Number of the latest successful attempt. */
  #lastSuccess = 0
  /** A failure of an attempt up to this number is not new. */
  #known = 0
  /** Failures counted in a row. */
  #failures: number
  /** Failures of this service in a row. */
  #ownFailures = 0
  #backoffUntilMs = Number.NEGATIVE_INFINITY
  #mayBeginEarly = false

  /**
   * Restores failures and the remaining backoff from the row after a restart. Otherwise a service that crashes
   * repeatedly would retry without a backoff.
   */
  constructor(
    { failureCount, lastFailureAt }: Pick<Webhook, 'failureCount' | 'lastFailureAt'>,
    now: Millis,
    nowMs: number,
  ) {
    this.#failures = failureCount
    if (failureCount === 0 || lastFailureAt === null) return
    const backoffMs = backoffDelayMs(failureCount, BACKOFF)
    const leftMs = lastFailureAt + backoffMs - now
    // The clock may have been set back since then.
    this.#backoffUntilMs = nowMs + Math.min(leftMs, backoffMs)
  }

  /** Begins an attempt. Returns its number. */
  begin(nowMs: number): number {
    this.#begun++
    this.#mayBeginEarly = false
    // Otherwise a user who tries often would have the webhook deactivated soon.
    if (nowMs < this.#backoffUntilMs) this.#known = this.#begun
    return this.#begun
  }

  /** Lets one attempt begin before the backoff has ended: the endpoint may have been mended. */
  resume(): void {
    this.#mayBeginEarly = true
  }

  /** Any success ends the streak and the backoff. */
  succeed(attemptNumber: number): void {
    this.#lastSuccess = Math.max(this.#lastSuccess, attemptNumber)
    this.#known = 0
    this.#failures = 0
    this.#ownFailures = 0
    this.#backoffUntilMs = Number.NEGATIVE_INFINITY
  }

  /** Whether an attempt that began later has succeeded. */
  isRefuted(attemptNumber: number): boolean {
    return attemptNumber < this.#lastSuccess
  }

  /** Counts a failure, unless it is known. A first failure that is not temporary causes no backoff. */
  fail(
    attemptNumber: number,
    { isTemporary, retryAfterMs }: Pick<AttemptResult, 'isTemporary' | 'retryAfterMs'>,
    nowMs: number,
  ): FailureKind {
    if (attemptNumber <= this.#known) return 'known'
    this.#known = this.#begun
    this.#failures++
    const backoffMs = isTemporary || this.#failures > 1 ? backoffDelayMs(this.#failures, BACKOFF) : 0
    this.#backoffUntilMs = nowMs + Math.max(backoffMs, retryAfterMs)
    return 'new'
  }

  /** Backs off after a failure of this service, which does not count. */
  excuse(nowMs: number): void {
    const backoffMs = backoffDelayMs(++this.#ownFailures, OWN_FAILURE_BACKOFF)
    this.#backoffUntilMs = Math.max(this.#backoffUntilMs, nowMs + backoffMs)
  }

  /** How long no attempt may begin; 0 when one may. */
  backoffLeftMs(nowMs: number): number {
    return this.#mayBeginEarly ? 0 : Math.max(0, this.#backoffUntilMs - nowMs)
  }
}
