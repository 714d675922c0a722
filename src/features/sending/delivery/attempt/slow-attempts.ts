/**
 * @module Ends attempts that take too long while others wait for their slots or their memory. Never ends an attempt that
 * delays nobody.
 */
import type { Clock, Millis, Timer } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import type { Sites } from '../sites/sites.ts'
import type { InFlightAttempt, InFlightAttempts } from './in-flight-attempts.ts'
import type { MemoryQueue } from './memory-queue.ts'

export interface SlowAttemptsOptions {
  readonly clock: Clock
  /** Once aborted, nothing is ended any more. */
  readonly stopping: AbortSignal
  readonly sites: Sites
  readonly memoryQueue: MemoryQueue<InFlightAttempt>
  readonly attempts: InFlightAttempts
  /** The account that a lane's slots and memory are counted for. */
  readonly ownerOf: (lane: string) => number
  /** Has a Worker end the attempts of these recipients. */
  readonly cut: (worker: number, recipientIds: readonly number[]) => void
}

/**
 * How long an attempt may take while others wait for its slot or memory: the first limit applies until the message
 * begins, the second from then on. RFC 5321 §4.5.3.2 allows a server about 20 minutes before the message begins, and 10
 * minutes for its reply to the final dot. An attempt that ends before the message begins is deferred and retried; one
 * that ends later is `uncertain`, so the second limit is longer, although no healthy server needs that long.
 */
const MAX_WANTED_ENVELOPE_MS = minutes(1)
const MAX_WANTED_BODY_MS = minutes(2)
/** Additional time for the octets of a message over a slow line: 64 kB a second. */
const MIN_BYTES_PER_MS = 64
const INTERVAL_MS = seconds(5)

/** How long a message of this size may take from its start while others wait for its slot or memory. */
export const computeMaxWantedBodyMs = (sizeBytes: number): Millis => MAX_WANTED_BODY_MS + sizeBytes / MIN_BYTES_PER_MS

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
