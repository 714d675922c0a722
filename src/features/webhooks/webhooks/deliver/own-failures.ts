/**
 * @module Distinguishes failures of this service's own DNS and network from those of endpoints; own failures count
 * against no webhook and are logged once. The network is considered the cause when several hosts that accepted events
 * recently fail without a response, and no endpoint has responded since then. In memory only.
 */
import type { App } from '#features/core/app/app.ts'
import type { FetchOutcome } from '#platform/net/safe-fetch.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, minutes } from '#platform/units.ts'

/** Hosts that must fail together. Two may share a data centre, or be the only hosts. */
const MIN_SILENT_HOSTS = 3
/**
 * A host whose last success is older counts as failed itself. This also limits how long failures are excused: when all
 * endpoints are silent for longer than this, their failures count.
 */
const MAX_SUCCESS_AGE_MS = days(1)
/**
 * A failure that recurs within this time continues an earlier one, so it is not logged again. Exceeds the longest
 * backoff after one, plus an attempt.
 */
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

  /**
   * Whether an attempt without a response failed because of us.
   * @param lastSuccessAt when the webhook last accepted an event; null: never
   */
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
