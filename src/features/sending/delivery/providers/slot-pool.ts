/**
 * @module Slots that accounts share: of all delivery, of one address, or of one site; and the lanes that wait for them.
 * Computes how many more an account may take, depending on who waits. Never claims and never wakes a lane. slot:
 * capacity for one message in delivery.
 */
import { classOfLane, isBulkLane, type LaneClass, rankOfClass, rankOfLane } from '#features/sending/queue/lanes.ts'
import { Counts } from '#platform/queue/counts.ts'
import { RoundRobin } from '#platform/queue/round-robin.ts'

/** Messages claimed per connection: the next is composed while the previous one is being sent. */
export const CLAIMED_PER_CONNECTION = 2

export interface SlotRules {
  /** Maximum fraction for one account while an ordinary lane of another account waits here. */
  readonly contestedFraction: number
  readonly bulkFraction: number
  /**
   * Whether an account must leave slots free, as `computeMaxHeld` says. Slots whose messages have begun cannot be taken
   * back, so slots for a new account must be free before it arrives.
   */
  readonly leavesFree: boolean
}

/** At a site, and over a pair, no slots are left free: they are equally fast for all accounts, so slots are freed soon. */
export const SITE_RULES: SlotRules = { contestedFraction: 1, bulkFraction: 0.8, leavesFree: false }

export class SlotPool {
  /** Lanes with due mail that found no free slot. */
  readonly waiting: WaitQueue
  readonly #rules: SlotRules
  readonly #ownerOf: (lane: string) => number
  readonly #held = new Counts()
  /** The slots that bulk lanes hold, by account. */
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
   * How many more of the `max` slots here an account may take for lanes of a class. Negative when it holds more than
   * it may; none while a lane of the account that goes before this class waits here.
   * @param canUse whether an account could use a slot here: bulk lanes yield only to accounts that could
   */
  freeFor(owner: number, laneClass: LaneClass, max: number, canUse: (owner: number) => boolean = () => true): number {
    const { contestedFraction, leavesFree } = this.#rules
    const held = this.#held.of(owner)
    const free = max - this.inFlight
    const sharers = this.waiting.countSharers(owner, false)
    const share = Math.max(1, Math.ceil(max * (sharers > 1 ? Math.min(1 / sharers, contestedFraction) : 1)))
    const own = Math.min(leavesFree ? computeMaxHeld(free + held, max) - held : free, free, share - held)
    if (laneClass === 'high') return own
    if (laneClass !== 'bulk' && this.waiting.hasBefore(owner, laneClass)) return Math.min(own, 0)
    if (laneClass === 'normal') return own
    // An account's broadcasts and its mail of low priority leave some of its slots to its other mail.
    const leaving = computeBulkLimit(held + own) - held
    return laneClass === 'low' ? leaving : Math.min(leaving, this.#freeForBulk(owner, max, canUse))
  }

  #freeForBulk(owner: number, max: number, canUse: (owner: number) => boolean): number {
    if (this.waiting.hasOrdinary((other) => canUse(other) && this.freeFor(other, 'high', max) > 0)) return 0
    const maxBulk = Math.max(1, Math.floor(max * this.#rules.bulkFraction))
    return Math.min(
      maxBulk - this.#heldByBulk.total,
      computeBulkLimit(max) - this.inFlight,
      Math.ceil(maxBulk / this.waiting.countSharers(owner, true)) - this.#heldByBulk.of(owner),
    )
  }

  /** A negative count releases slots. */
  acquire(lane: string, count: number): void {
    const owner = this.#ownerOf(lane)
    this.#held.add(owner, count)
    if (isBulkLane(lane)) this.#heldByBulk.add(owner, count)
  }
}

/**
 * How many slots an account may hold. `available` are those that no other account holds, of `max` in total. The result
 * is twice the square of the slots that remain free, divided by `max`. So an account that is alone may hold half of all
 * slots, and each of two accounts less than a third. If one account after another takes its maximum and keeps it, ten
 * leave 29 of 500 slots free and twenty leave 11; if each took half of the free slots instead, ten accounts would leave
 * none.
 */
function computeMaxHeld(available: number, max: number): number {
  const p = available + max / 4
  // The root of held = 2 (available - held)² / max; reduced slightly, so that a whole number is not rounded up.
  return Math.ceil(p - Math.sqrt(p * p - available * available) - 1e-6)
}

/** The lanes that wait for slots; owners take turns, and bulk lanes come after all others. */
export class WaitQueue {
  readonly #ownerOf: (lane: string) => number
  readonly #ordinary = new RoundRobin<string>(rankOfLane)
  readonly #bulk = new RoundRobin<string>()
  /** Lanes that `shift` returned and that have not had their turn yet, with their owners. */
  readonly #woken = new Map<string, number>()
  /** Number of lanes per owner, woken ones included. */
  readonly #ordinaryCounts = new Counts()
  readonly #bulkCounts = new Counts()

  constructor(ownerOf: (lane: string) => number) {
    this.#ownerOf = ownerOf
  }

  get isEmpty(): boolean {
    return this.#ordinaryCounts.size + this.#bulkCounts.size === 0
  }

  /** Whether an ordinary lane of an owner that has free slots waits or was woken. */
  hasOrdinary(hasFree: (owner: number) => boolean): boolean {
    for (const owner of this.#ordinaryCounts.keys()) if (hasFree(owner)) return true
    return false
  }

  /** Owners with a waiting or woken lane of that kind, and this owner. */
  countSharers(owner: number, isBulk: boolean): number {
    const counts = this.#countsOf(isBulk)
    return counts.size + (counts.of(owner) === 0 ? 1 : 0)
  }

  /** Whether a lane of the owner waits or was woken. */
  wantsSlots(owner: number): boolean {
    return this.#ordinaryCounts.of(owner) + this.#bulkCounts.of(owner) > 0
  }

  /** Whether an ordinary lane of the owner that goes before this class waits or was woken. */
  hasBefore(owner: number, laneClass: LaneClass): boolean {
    const rank = rankOfClass(laneClass)
    const first = this.#ordinary.firstOf(owner)
    if (first !== undefined && rankOfLane(first) < rank) return true
    for (const [lane, other] of this.#woken) if (other === owner && rankOfLane(lane) < rank) return true
    return false
  }

  add(lane: string): void {
    const owner = this.#ownerOf(lane)
    if (this.#lanesLike(lane).add(owner, lane)) this.#countsOf(isBulkLane(lane)).add(owner, 1)
  }

  delete(lane: string): void {
    const owner = this.#lanesLike(lane).delete(lane)
    if (owner !== undefined) this.#countsOf(isBulkLane(lane)).add(owner, -1)
    this.endTurn(lane)
  }

  /** Whether the lane waits; false once it was woken. */
  has(lane: string): boolean {
    return this.#lanesLike(lane).has(lane)
  }

  /** Whether it is the lane's turn: `shift` returned it, and its turn has not ended. */
  isWoken(lane: string): boolean {
    return this.#woken.has(lane)
  }

  all(): string[] {
    return [...this.#ordinary.all(), ...this.#bulk.all()]
  }

  /** Removes the first lane of the next owner that has free slots; a bulk lane only when no other can be served. */
  shift(hasFree: (owner: number, laneClass: LaneClass) => boolean): string | undefined {
    const isServable = (owner: number, lane: string): boolean => hasFree(owner, classOfLane(lane))
    const next = this.#ordinary.shift(isServable) ?? this.#bulk.shift(isServable)
    if (next) this.#woken.set(next.item, next.owner)
    return next?.item
  }

  /** Ends the turn of a lane that `shift` returned. */
  endTurn(lane: string): void {
    const owner = this.#woken.get(lane)
    if (owner === undefined) return
    this.#woken.delete(lane)
    this.#countsOf(isBulkLane(lane)).add(owner, -1)
  }

  #lanesLike(lane: string): RoundRobin<string> {
    return isBulkLane(lane) ? this.#bulk : this.#ordinary
  }

  #countsOf(isBulk: boolean): Counts {
    return isBulk ? this.#bulkCounts : this.#ordinaryCounts
  }
}

const BULK_FRACTION = 0.8

/** Bulk mail may start another message only while fewer of the `max` slots or connections are in use; at least 1. */
export const computeBulkLimit = (max: number): number => Math.max(1, Math.floor(max * BULK_FRACTION))
