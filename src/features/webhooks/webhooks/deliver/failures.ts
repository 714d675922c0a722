/**
 * @module Decides which failed attempts of a webhook count, how long it backs off after one, and when an event is tried
 * again. The invariants: a failure counts only if no success began after it, and attempts in flight together count once,
 * as do those that begin before the backoff has ended. So ten counted failures are ten successive attempts over more than
 * an hour. Failures of this service's own DNS and network count against no webhook and are logged once: the network is
 * considered the cause when several hosts that accepted events recently fail without a response, and no endpoint has
 * responded since then. Stores nothing.
 */
import type { App } from '#features/core/app/app.ts'
import type { FetchOutcome } from '#platform/net/safe-fetch.ts'
import { type BackoffDelays, backoffDelayMs } from '#platform/queue/backoff.ts'
import { days, type Millis, minutes, seconds } from '#platform/units.ts'
import type { Webhook } from '../manage/webhooks.ts'

/** Delays after the first, second, third and fourth attempt; the fifth is the last. */
const RETRY_DELAYS_MS = [minutes(15), minutes(30), minutes(60), minutes(120)] as const
const JITTER_MS = seconds(5)

/** Limit for a wait that an endpoint asks for. */
export const MAX_RETRY_AFTER_MS = RETRY_DELAYS_MS[3]

/** No attempt is scheduled further ahead. */
export const MAX_DELAY_MS = RETRY_DELAYS_MS[3] + JITTER_MS

export const MAX_ATTEMPTS = RETRY_DELAYS_MS.length + 1

/**
 * How long a webhook backs off after consecutive failures: 1, 3, 9 … seconds up to 30 minutes. The tenth failure thus
 * comes 78 minutes after the first, so that an endpoint that is down for an hour is not deactivated.
 */
export const BACKOFF: BackoffDelays = { minMs: seconds(1), maxMs: minutes(30), factor: 3 }

/** After a failure of this service itself, which does not count. */
export const OWN_FAILURE_BACKOFF: BackoffDelays = { minMs: seconds(1), maxMs: seconds(60) }

/** Delay after attempt number `attempts`, with a fraction of the jitter; undefined when that was the last. */
export function computeRetryDelayMs(attempts: number, fraction: number): number | undefined {
  const delay = RETRY_DELAYS_MS[attempts - 1]
  return delay === undefined ? undefined : delay + Math.round(fraction * JITTER_MS)
}

export class Streak {
  /** Number of attempts begun; also the number of the latest. */
  #begun = 0
  /** Number of the latest successful attempt. */
  #lastSuccess = 0
  /** A failure of an attempt up to this number is not new. */
  #known = 0
  #failures: number
  /** Failures of this service in a row. */
  #ownFailures = 0
  #backoffUntilMs = Number.NEGATIVE_INFINITY
  #mayBeginEarly = false

  /** Restores failures and backoff: a service that crashes repeatedly would retry without one. */
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

  /**
   * Counts a failure; false for one that is not new: its attempt began before the last counted failure was known, or
   * before the backoff had ended. A first failure that is not temporary causes no backoff.
   */
  fail(
    attemptNumber: number,
    { isTemporary, retryAfterMs }: { readonly isTemporary: boolean; readonly retryAfterMs: number },
    nowMs: number,
  ): boolean {
    if (attemptNumber <= this.#known) return false
    this.#known = this.#begun
    this.#failures++
    const backoffMs = isTemporary || this.#failures > 1 ? backoffDelayMs(this.#failures, BACKOFF) : 0
    this.#backoffUntilMs = nowMs + Math.max(backoffMs, retryAfterMs)
    return true
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

/** Hosts that must fail together. Two may share a data centre, or be the only hosts. */
const MIN_SILENT_HOSTS = 3
/**
 * A host whose last success is older counts as failed itself. This also limits how long failures are excused: when all
 * endpoints are silent for longer than this, their failures count.
 */
const MAX_SUCCESS_AGE_MS = days(1)
/** A failure that recurs within this time is not logged again. Exceeds the longest backoff after one. */
const REPORT_INTERVAL_MS = minutes(2)

/** Why there was no response. */
type FetchFailure = Pick<FetchOutcome & { readonly kind: 'failed' }, 'cause' | 'reason'>

type FailureSource = 'own' | 'network'

const MESSAGES: Readonly<Record<FailureSource, string>> = {
  own: 'webhooks wait, failures are not counted: this service cannot resolve names or open connections; check its DNS servers (TASSIS_DNS_SERVERS, /etc/resolv.conf) and its limit of open files',
  network:
    'webhooks wait, failures are not counted: no endpoint responds, so the network of this service is probably down; check its outbound connectivity',
}

export class OwnFailureDetector {
  readonly #app: Pick<App, 'clock' | 'log'>
  /** Hosts that failed without a response since the last response of any endpoint. */
  readonly #silentHosts = new Set<string>()
  readonly #seenAtMs = new Map<FailureSource, number>()

  constructor(app: Pick<App, 'clock' | 'log'>) {
    this.#app = app
  }

  /** Records that an endpoint responded, with any status. */
  recordResponse(): void {
    this.#silentHosts.clear()
  }

  /** Whether an attempt without a response failed because of us. */
  isOwnFailure(url: string, { cause, reason }: FetchFailure, lastSuccessAt: Millis | null): boolean {
    if (cause === 'own') {
      this.#report('own', reason)
      return true
    }
    // Calls to the address are forbidden, so this is not a network failure.
    if (cause === 'refused') return false
    if (lastSuccessAt !== null && this.#app.clock.now() - lastSuccessAt < MAX_SUCCESS_AGE_MS)
      this.#silentHosts.add(new URL(url).hostname)
    if (this.#silentHosts.size < MIN_SILENT_HOSTS) return false
    this.#report('network', reason)
    return true
  }

  #report(source: FailureSource, reason: string): void {
    const nowMs = this.#app.clock.monotonicMs()
    const seenAtMs = this.#seenAtMs.get(source)
    this.#seenAtMs.set(source, nowMs)
    if (seenAtMs !== undefined && nowMs - seenAtMs < REPORT_INTERVAL_MS) return
    this.#app.log.error({ reason }, MESSAGES[source])
  }
}
