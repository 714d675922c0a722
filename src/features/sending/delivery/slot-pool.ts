/**
 * @module Slots that accounts share: all of delivery, those for one address, those of one site. Says how many an account may have more, whoever waits for
 * some. Never claims and never wakes a lane.
 *
 * slot: room for one message in delivery.
 */
import { isBulkLane } from '#features/sending/queue/lanes.ts'
import { Counts } from '#platform/queue/counts.ts'
import { computeBulkLimit } from './bulk-limit.ts'
import { WaitQueue } from './wait-queue.ts'

export interface SlotRules {
  /** What an account may have at most while an ordinary lane of another waits here. */
  readonly contestedFraction: number
  /** What bulk lanes may have at most together. */
  readonly bulkFraction: number
  /**
   * Whether an account leaves slots free, the more of them the fewer there are: see `computeMaxHeld`. Slots whose messages have begun cannot be taken back, so
   * that what a newcomer needs must be free before he comes.
   */
  readonly leavesFree: boolean
}

export class SlotPool {
  /** Lanes that have due mail and found no slot free for them. */
  readonly waiting: WaitQueue
  readonly #rules: SlotRules
  readonly #ownerOf: (lane: string) => number
  readonly #held = new Counts()
  /** Of these, what each account has by bulk lanes. */
  readonly #heldByBulk = new Counts()

  /** @param ownerOf the account that a lane's slots are counted for */
  constructor(rules: SlotRules, ownerOf: (lane: string) => number) {
    this.#rules = rules
    this.#ownerOf = ownerOf
    this.waiting = new WaitQueue(ownerOf)
  }

  get inFlight(): number {
    return this.#held.total
  }

  get isIdle(): boolean {
    return this.inFlight === 0 && this.waiting.isEmpty
  }

  /**
   * How many more slots an account may have here, of `max` in all, for lanes that are bulk or are not. Below zero when it has more than it may.
   * @param canUse whether an account could use a slot here: bulk lanes give way only to those that could
   */
  freeFor(owner: number, isBulk: boolean, max: number, canUse: (owner: number) => boolean = () => true): number {
    const { contestedFraction, leavesFree } = this.#rules
    const held = this.#held.of(owner)
    const free = max - this.inFlight
    const sharers = this.waiting.countSharers(owner, false)
    const share = Math.max(1, Math.ceil(max * (sharers > 1 ? Math.min(1 / sharers, contestedFraction) : 1)))
    const own = Math.min(leavesFree ? computeMaxHeld(free + held, max) - held : free, free, share - held)
    if (!isBulk) return own
    // An account's broadcasts leave some of its slots to its other mail.
    return Math.min(computeBulkLimit(held + own) - held, this.#freeForBulk(owner, max, canUse))
  }

  #freeForBulk(owner: number, max: number, canUse: (owner: number) => boolean): number {
    if (this.waiting.hasOrdinary((other) => canUse(other) && this.freeFor(other, false, max) > 0)) return 0
    const maxBulk = Math.max(1, Math.floor(max * this.#rules.bulkFraction))
    return Math.min(
      maxBulk - this.#heldByBulk.total,
      computeBulkLimit(max) - this.inFlight,
      Math.ceil(maxBulk / this.waiting.countSharers(owner, true)) - this.#heldByBulk.of(owner),
    )
  }

  /** Negative: releases as many. */
  acquire(lane: string, count: number): void {
    const owner = this.#ownerOf(lane)
    this.#held.add(owner, count)
    if (isBulkLane(lane)) this.#heldByBulk.add(owner, count)
  }
}

/**
 * How many slots an account may have of `available`, those that no other has, when there are `max` in all: as many as twice the square of what it leaves
 * free, divided by `max`. That is half when it is alone; of two each has less than a third. If one account after the other takes all that it may and keeps
 * it, ten leave 29 of 500 free and twenty leave 11, where half of the rest for each would leave none after ten.
 */
function computeMaxHeld(available: number, max: number): number {
  const p = available + max / 4
  // The root of held = 2 (available - held)² / max; a little less, so that a whole number stays one.
  return Math.ceil(p - Math.sqrt(p * p - available * available) - 1e-6)
}
