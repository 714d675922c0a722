/** @module Ends attempts that take too long while others wait for their slots or memory, and no others. */
import type { Clock, Timer } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { Sites } from '../sites/sites.ts'
import type { MemoryQueue } from './attempt-starter.ts'
import { type InFlightAttempt, type InFlightAttempts, MAX_WANTED_ENVELOPE_MS } from './in-flight-attempts.ts'

export interface SlowAttemptsOptions {
  readonly clock: Clock
  /** Once aborted, nothing is ended any more. */
  readonly stopping: AbortSignal
  readonly sites: Sites
  readonly memoryQueue: MemoryQueue<InFlightAttempt>
  readonly attempts: InFlightAttempts
  /** The account that a lane's slots and memory are counted for. */
  readonly ownerOf: (lane: string) => number
  readonly cut: (worker: number, recipientIds: readonly number[]) => void
}

const INTERVAL_MS = seconds(5)

export class SlowAttempts {
  readonly #options: SlowAttemptsOptions
  /** The timer of the next check; undefined while none is needed. */
  #timer: Timer | undefined

  constructor(options: SlowAttemptsOptions) {
    this.#options = options
  }

  /** While others wait for slots or memory, checks regularly for attempts that take too long. */
  watch(): void {
    const { clock, stopping, sites, memoryQueue } = this.#options
    if (this.#timer || stopping.aborted) return
    if (!sites.areSlotsWanted && !memoryQueue.hasWaiting) return
    this.#timer = clock.after(INTERVAL_MS, () => {
      this.#timer = undefined
      // Requests may have released memory since then.
      memoryQueue.startWaiting()
      this.#cutSlow()
      this.watch()
    })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  /**
   * Tells the Workers to end slow attempts of three kinds:
   * - attempts whose message has not begun, if other mail of their account waits for a slot or memory;
   * - attempts whose memory other accounts wait for, even if the message has begun;
   * - as many attempts of an account, oldest first, as it has slots in excess, even if the message has begun.
   */
  #cutSlow(): void {
    const { clock, sites, memoryQueue, attempts, ownerOf, cut } = this.#options
    const now = clock.now()
    const recipientsByWorker = new Map<number, number[]>()
    const excess = new Map<number, number>()
    for (const attempt of attempts.all()) {
      const { lane, worker, recipientId, startedAt, sentToWorkerAt = now, settling } = attempt
      const hasBegun = startedAt !== undefined
      const isSlow = hasBegun
        ? now - startedAt >= attempt.maxWantedBodyMs
        : now - sentToWorkerAt >= MAX_WANTED_ENVELOPE_MS
      if (!isSlow || settling) continue
      const owner = ownerOf(lane)
      const excessSlots = excess.get(owner) ?? sites.countExcess(owner)
      const isBlockingOthers = excessSlots > 0 || memoryQueue.isBlockingOthers(attempt)
      const isBlockingOwn = sites.isSlotWanted(owner) || memoryQueue.isBlockingOwn(attempt)
      if (!isBlockingOthers && (hasBegun || !isBlockingOwn)) continue
      excess.set(owner, excessSlots - 1)
      recipientsByWorker.set(worker, [...(recipientsByWorker.get(worker) ?? []), recipientId])
    }
    for (const [worker, recipientIds] of recipientsByWorker) cut(worker, recipientIds)
  }
}
