/**
 * @module How much may be under way at the same time: over one webhook, over those of one account, over all. Says who may begin and who waits until
 * somebody else is done; begins nothing itself.
 */
import { Counts } from '#platform/queue/counts.ts'
import { KiB, MiB } from '#platform/units.ts'
import type { LatencyClass, WebhookQueue } from './webhook-queue.ts'

/** Of what pace attempts beyond the first of a webhook are; an unproven one has none. */
type ExtraLatencyClass = Exclude<LatencyClass, 'unproven'>

/**
 * Attempts under way over all webhooks, beyond the one that each may always have: those take no place from anybody. Late endpoints share places of their
 * own, or they would hold those of all others.
 */
const MAX_EXTRA_ATTEMPTS: Readonly<Record<ExtraLatencyClass, number>> = { fast: 500, slow: 250 }
/** The same over the webhooks of one account, so that no tenant takes all. */
const MAX_EXTRA_ATTEMPTS_PER_ACCOUNT: Readonly<Record<ExtraLatencyClass, number>> = { fast: 50, slow: 10 }
/** Attempts under way of a late endpoint: enough for 200,000 events a day at two seconds each. */
const MAX_PER_SLOW_WEBHOOK = 5
/** Inbound routes are too many for one attempt each: over those of an account this is the most, and who finds no place waits for one. */
const MAX_ROUTE_ATTEMPTS_PER_ACCOUNT = 50
/** Characters of the bodies under way over the webhooks of one account: what came in by mail may be large. Who finds no room waits for it. */
const MAX_BODY_LENGTH_PER_ACCOUNT = 8 * MiB
/** Over all accounts there are no more than these, */
const MAX_TOTAL_BODY_LENGTH = 32 * MiB
/** but for those of accounts that have less than this under way: many events, which are small, or one mail. */
const GUARANTEED_BODY_LENGTH = 256 * KiB

/** What an attempt takes of what all share. */
export interface Slot {
  /** Its body is in memory. */
  holdBody(characters: number): void
  /** It is over; called again it does nothing. */
  release(): void
}

export class Slots {
  readonly #maxPerWebhook: number
  #attempts = 0
  /** Attempts beyond the first of each webhook, by account and by lane, and by the pace that it had when they began. */
  readonly #extra = { fast: new Counts(), slow: new Counts() }
  readonly #extraByQueue = { fast: new Counts<WebhookQueue>(), slow: new Counts<WebhookQueue>() }
  /** Attempts of inbound routes, first and further, by account. */
  readonly #routeAttempts = new Counts()
  /** Of the bodies under way, by account. */
  readonly #characters = new Counts()
  /** Webhooks without an attempt under way that wait for a place in their account, in order. */
  readonly #waiting = new Map<number, Set<number>>()

  /** @param maxPerWebhook attempts under way of one webhook */
  constructor(maxPerWebhook: number) {
    this.#maxPerWebhook = maxPerWebhook
  }

  /** Attempts under way now. */
  get attempts(): number {
    return this.#attempts
  }

  /** Whether a lane may begin one attempt more; one with nothing under way that may not is remembered, for `pumpWaiting`. */
  hasCapacity(queue: WebhookQueue): boolean {
    const { id, accountId, routeId } = queue.webhook
    const isFree = this.#hasBodyCapacity(accountId) && (routeId === null || this.#hasRouteCapacity(accountId))
    if (queue.running > 0) return isFree && this.#hasExtraCapacity(queue)
    if (!isFree) this.#waiting.set(accountId, (this.#waiting.get(accountId) ?? new Set()).add(id))
    return isFree
  }

  /** Takes a place for an attempt that begins. `onReleased` is called once, when it is given back. */
  acquire(queue: WebhookQueue, onReleased: () => void): Slot {
    const { accountId, routeId } = queue.webhook
    const extra = queue.running > 0 && queue.latencyClass !== 'unproven' ? queue.latencyClass : undefined
    const routeAttempts = routeId === null ? 0 : 1
    let isReleased = false
    let held = 0
    queue.running++
    this.#attempts++
    this.#countExtra(queue, extra, 1)
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
        this.#countExtra(queue, this.#findClassToRelease(queue, extra), -1)
        this.#routeAttempts.add(accountId, -routeAttempts)
        this.#characters.add(accountId, -held)
        onReleased()
      },
    }
  }

  /** Has those begin that waited for a place in an account, before whoever has just given one back takes it again. */
  pumpWaiting(accountId: number, isOfRoute: (id: number) => boolean, pump: (id: number) => void): void {
    const waiting = this.#waiting.get(accountId)
    if (!waiting) return
    for (const id of waiting) {
      if (!this.#hasBodyCapacity(accountId)) return
      if (!this.#hasRouteCapacity(accountId) && isOfRoute(id)) continue
      waiting.delete(id)
      pump(id)
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

  /** The class that gets a place back: that of the attempt; of the first one, whichever others of its webhook go on. */
  #findClassToRelease(queue: WebhookQueue, own: ExtraLatencyClass | undefined): ExtraLatencyClass | undefined {
    const hasLeft = (latencyClass: ExtraLatencyClass): boolean => this.#extraByQueue[latencyClass].of(queue) > 0
    return own !== undefined && hasLeft(own) ? own : (['slow', 'fast'] as const).find(hasLeft)
  }

  #countExtra(queue: WebhookQueue, latencyClass: ExtraLatencyClass | undefined, delta: 1 | -1): void {
    if (latencyClass === undefined) return
    this.#extraByQueue[latencyClass].add(queue, delta)
    this.#extra[latencyClass].add(queue.webhook.accountId, delta)
  }
}
