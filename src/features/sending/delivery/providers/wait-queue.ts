/**
 * @module Queues lanes that wait for a slot. Owners (accounts) take turns, so that an owner with many lanes does not
 * hold up the others; of an owner's lanes, those of a higher priority go first; bulk lanes come after all others. Never counts slots and never wakes a lane.
 */
import { classOfLane, isBulkLane, type LaneClass, rankOfClass, rankOfLane } from '#features/sending/queue/lanes.ts'
import { Counts } from '#platform/queue/counts.ts'
import { RoundRobin } from '#platform/queue/round-robin.ts'

export class WaitQueue {
  readonly #ownerOf: (lane: string) => number
  readonly #ordinary = new LaneRotation()
  readonly #bulk = new LaneRotation()

  constructor(ownerOf: (lane: string) => number) {
    this.#ownerOf = ownerOf
  }

  get isEmpty(): boolean {
    return this.#ordinary.isEmpty && this.#bulk.isEmpty
  }

  /**
   * Whether an owner that has free slots has an ordinary lane that waits, or that was woken and has not had its turn.
   */
  hasOrdinary(hasFree: (owner: number) => boolean): boolean {
    return this.#ordinary.hasOwner(hasFree)
  }

  /**
   * Number of owners that want slots for bulk or for ordinary lanes: this owner, and others with a waiting or woken
   * lane of that kind.
   */
  countSharers(owner: number, isBulk: boolean): number {
    return this.#of(isBulk).countSharers(owner)
  }

  /** Whether a lane of the owner waits or was woken. */
  wantsSlots(owner: number): boolean {
    return this.#ordinary.wantsSlots(owner) || this.#bulk.wantsSlots(owner)
  }

  /** Whether an ordinary lane of the owner that goes before this class waits or was woken. */
  hasBefore(owner: number, laneClass: LaneClass): boolean {
    return this.#ordinary.hasBefore(owner, rankOfClass(laneClass))
  }

  add(lane: string): void {
    this.#of(isBulkLane(lane)).add(lane, this.#ownerOf(lane))
  }

  /** Removes a lane and ends its turn. */
  delete(lane: string): void {
    this.#of(isBulkLane(lane)).delete(lane)
  }

  /** Whether the lane waits; false once it was woken. */
  has(lane: string): boolean {
    return this.#of(isBulkLane(lane)).has(lane)
  }

  /** Whether it is the lane's turn: `shift` returned it, and its turn has not ended. */
  isWoken(lane: string): boolean {
    return this.#of(isBulkLane(lane)).isWoken(lane)
  }

  all(): string[] {
    return [...this.#ordinary.all(), ...this.#bulk.all()]
  }

  /**
   * Removes and returns the first lane of the next owner that has free slots. Returns a bulk lane only when no ordinary
   * lane can be served.
   */
  shift(hasFree: (owner: number, laneClass: LaneClass) => boolean): string | undefined {
    const isServable = (owner: number, lane: string): boolean => hasFree(owner, classOfLane(lane))
    return this.#ordinary.shift(isServable) ?? this.#bulk.shift(isServable)
  }

  /** Ends the turn of a lane that `shift` returned. */
  endTurn(lane: string): void {
    this.#of(isBulkLane(lane)).endTurn(lane)
  }

  #of(isBulk: boolean): LaneRotation {
    return isBulk ? this.#bulk : this.#ordinary
  }
}

/** Lanes of one kind. */
class LaneRotation {
  readonly #waiting = new RoundRobin<string>(rankOfLane)
  /** Lanes that `shift` returned and that have not had their turn yet, with their owners. */
  readonly #woken = new Map<string, number>()
  /** Number of lanes per owner, woken ones included. */
  readonly #laneCounts = new Counts()

  get isEmpty(): boolean {
    return this.#laneCounts.size === 0
  }

  hasOwner(isMatch: (owner: number) => boolean): boolean {
    for (const owner of this.#laneCounts.keys()) if (isMatch(owner)) return true
    return false
  }

  wantsSlots(owner: number): boolean {
    return this.#laneCounts.of(owner) > 0
  }

  hasBefore(owner: number, rank: number): boolean {
    const first = this.#waiting.firstOf(owner)
    if (first !== undefined && rankOfLane(first) < rank) return true
    for (const [lane, other] of this.#woken) if (other === owner && rankOfLane(lane) < rank) return true
    return false
  }

  countSharers(owner: number): number {
    return this.#laneCounts.size + (this.#laneCounts.of(owner) === 0 ? 1 : 0)
  }

  add(lane: string, owner: number): void {
    if (this.#waiting.add(owner, lane)) this.#laneCounts.add(owner, 1)
  }

  delete(lane: string): void {
    const owner = this.#waiting.delete(lane)
    if (owner !== undefined) this.#laneCounts.add(owner, -1)
    this.endTurn(lane)
  }

  has(lane: string): boolean {
    return this.#waiting.has(lane)
  }

  isWoken(lane: string): boolean {
    return this.#woken.has(lane)
  }

  all(): string[] {
    return this.#waiting.all()
  }

  shift(isServable: (owner: number, lane: string) => boolean): string | undefined {
    const next = this.#waiting.shift(isServable)
    if (next) this.#woken.set(next.item, next.owner)
    return next?.item
  }

  endTurn(lane: string): void {
    const owner = this.#woken.get(lane)
    if (owner === undefined) return
    this.#woken.delete(lane)
    this.#laneCounts.add(owner, -1)
  }
}
