/**
 * @module Limits how many attempts run concurrently: per webhook, per account and in total. Decides which webhook may
 * begin and which waits for a slot; begins nothing itself.
 */
import { Counts } from '#platform/queue/counts.ts'
import { KiB, MiB } from '#platform/units.ts'
import type { LatencyClass, WebhookQueue } from './webhook-queue.ts'

/** Latency classes that allow attempts beyond the first of a webhook; an unproven webhook gets none. */
type ExtraLatencyClass = Exclude<LatencyClass, 'unproven'>

/**
 * Maximum concurrent attempts over all webhooks, not counting those that begin while their webhook has none. Slow
 * endpoints have slots of their own; otherwise they would occupy those of all others.
 */
const MAX_EXTRA_ATTEMPTS: Readonly<Record<ExtraLatencyClass, number>> = { fast: 500, slow: 250 }
/** Maximum per account, so that no tenant occupies all slots. */
const MAX_EXTRA_ATTEMPTS_PER_ACCOUNT: Readonly<Record<ExtraLatencyClass, number>> = { fast: 50, slow: 10 }
/** Concurrent attempts of a slow endpoint: enough for 200,000 events a day at two seconds each. */
const MAX_PER_SLOW_WEBHOOK = 5
/** Of all inbound routes of an account, which are too many to allow each one an attempt. */
const MAX_ROUTE_ATTEMPTS_PER_ACCOUNT = 50
/** Length of the bodies in flight per account, because received mail may be large. */
const MAX_BODY_LENGTH_PER_ACCOUNT = 8 * MiB
/** Length of the bodies in flight over all accounts. */
const MAX_TOTAL_BODY_LENGTH = 32 * MiB
/** Length that each account may use even when the total is exhausted: enough for one mail. */
const GUARANTEED_BODY_LENGTH = 256 * KiB

/** What one attempt uses of the shared limits. */
export interface Slot {
  /** Counts the length of the attempt's body against the limits. */
  holdBody(characters: number): void
  /** Called when the attempt has ended; repeated calls have no effect. */
  release(): void
}

export class Slots {
  readonly #maxPerWebhook: number
  #attempts = 0
  /** Attempts that began beside another one of their webhook, by the latency class that it had then and by account. */
  readonly #extra = { fast: new Counts(), slow: new Counts() }
  /** Attempts of inbound routes by account, including first ones. */
  readonly #routeAttempts = new Counts()
  readonly #characters = new Counts()
  /** Queues by account that have no attempt in flight and wait for a slot, in order. */
  readonly #waiting = new Map<number, Set<WebhookQueue>>()

  /** @param maxPerWebhook concurrent attempts of one webhook */
  constructor(maxPerWebhook: number) {
    this.#maxPerWebhook = maxPerWebhook
  }

  get attempts(): number {
    return this.#attempts
  }

  /** Whether a queue may begin another attempt. One that may not, and has none, is noted for `pumpWaiting`. */
  hasCapacity(queue: WebhookQueue): boolean {
    const { accountId, routeId } = queue.webhook
    const isFree = this.#hasBodyCapacity(accountId) && (routeId === null || this.#hasRouteCapacity(accountId))
    if (queue.running > 0) return isFree && this.#hasExtraCapacity(queue)
    if (!isFree) this.#waiting.set(accountId, (this.#waiting.get(accountId) ?? new Set()).add(queue))
    return isFree
  }

  /** Acquires a slot for an attempt. `onReleased` is called once, when the slot is released. */
  acquire(queue: WebhookQueue, onReleased: () => void): Slot {
    const { accountId, routeId } = queue.webhook
    const extra = queue.running > 0 && queue.latencyClass !== 'unproven' ? queue.latencyClass : undefined
    const routeAttempts = routeId === null ? 0 : 1
    let isReleased = false
    let held = 0
    queue.running++
    this.#attempts++
    if (extra) this.#extra[extra].add(accountId, 1)
    this.#routeAttempts.add(accountId, routeAttempts)
    return {
      holdBody: (characters) => {
        held += characters
        this.#characters.add(accountId, characters)
      },
      release: () => {
        if (isReleased) return
        isReleased = true
        queue.running--
        this.#attempts--
        if (extra) this.#extra[extra].add(accountId, -1)
        this.#routeAttempts.add(accountId, -routeAttempts)
        this.#characters.add(accountId, -held)
        onReleased()
      },
    }
  }

  /** Starts the webhooks that wait for a slot in an account, before the one that released a slot can take it again. */
  pumpWaiting(accountId: number, pump: (id: number) => void): void {
    const waiting = this.#waiting.get(accountId)
    if (!waiting) return
    for (const queue of waiting) {
      if (!this.#hasBodyCapacity(accountId)) return
      if (!this.#hasRouteCapacity(accountId) && queue.webhook.routeId !== null) continue
      waiting.delete(queue)
      pump(queue.webhook.id)
    }
    if (waiting.size === 0) this.#waiting.delete(accountId)
  }

  #hasBodyCapacity(accountId: number): boolean {
    const isFree = this.#characters.total < MAX_TOTAL_BODY_LENGTH
    return this.#characters.of(accountId) < (isFree ? MAX_BODY_LENGTH_PER_ACCOUNT : GUARANTEED_BODY_LENGTH)
  }

  #hasRouteCapacity(accountId: number): boolean {
    return this.#routeAttempts.of(accountId) < MAX_ROUTE_ATTEMPTS_PER_ACCOUNT
  }

  #hasExtraCapacity({ webhook: { accountId }, latencyClass, running }: WebhookQueue): boolean {
    if (latencyClass === 'unproven') return false
    const maxOfWebhook =
      latencyClass === 'slow' ? Math.min(this.#maxPerWebhook, MAX_PER_SLOW_WEBHOOK) : this.#maxPerWebhook
    const extra = this.#extra[latencyClass]
    return (
      running < maxOfWebhook &&
      extra.of(accountId) < MAX_EXTRA_ATTEMPTS_PER_ACCOUNT[latencyClass] &&
      extra.total < MAX_EXTRA_ATTEMPTS[latencyClass]
    )
  }
}
