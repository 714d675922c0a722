/**
 * @module Queues lanes that wait for a slot. Owners (accounts) take turns, so that an owner with many lanes does not
 * hold up the others; bulk lanes come after all others. Never counts slots and never wakes a lane.
 */
import { isBulkLane } from '#features/sending/queue/lanes.ts'
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
  shift(hasFree: (owner: number, isBulk: boolean) => boolean): string | undefined {
    return this.#ordinary.shift((owner) => hasFree(owner, false)) ?? this.#bulk.shift((owner) => hasFree(owner, true))
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
  readonly #waiting = new RoundRobin<string>()
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

  shift(isServable: (owner: number) => boolean): string | undefined {
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
