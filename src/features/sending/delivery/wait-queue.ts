/**
 * @module Lanes that wait for a slot. Owners (accounts) take turns, so that one with many lanes holds up nobody else; bulk lanes come after all others.
 * Never counts slots and never wakes a lane.
 */
import { isBulkLane } from '#features/sending/emails/lanes.ts'
import { Counts } from '#platform/queue/counts.ts'

export class WaitQueue {
  readonly #ownerOf: (lane: string) => number
  readonly #ordinary = new Turns()
  readonly #bulk = new Turns()

  constructor(ownerOf: (lane: string) => number) {
    this.#ownerOf = ownerOf
  }

  get isEmpty(): boolean {
    return this.#ordinary.isEmpty && this.#bulk.isEmpty
  }

  /** Whether an ordinary lane waits, or was woken and has not had its turn yet, of an owner whom slots are free for. */
  hasOrdinary(hasFree: (owner: number) => boolean): boolean {
    return this.#ordinary.hasOwner(hasFree)
  }

  /** How many owners want slots for lanes of that kind: this one, and the others of whom a lane waits or has been woken. */
  countSharers(owner: number, isBulk: boolean): number {
    return this.#of(isBulk).countSharers(owner)
  }

  /** Whether a lane of the owner waits or has been woken. */
  wantsSlots(owner: number): boolean {
    return this.#ordinary.wantsSlots(owner) || this.#bulk.wantsSlots(owner)
  }

  add(lane: string): void {
    this.#of(isBulkLane(lane)).add(lane, this.#ownerOf(lane))
  }

  /** The lane waits here no more, and its turn has ended. */
  delete(lane: string): void {
    this.#of(isBulkLane(lane)).delete(lane)
  }

  /** Whether the lane waits; not when it was woken. */
  has(lane: string): boolean {
    return this.#of(isBulkLane(lane)).has(lane)
  }

  all(): string[] {
    return [...this.#ordinary.all(), ...this.#bulk.all()]
  }

  /** Takes out the first lane of the owner whose turn it is, among those whom slots are free for; bulk lanes when no other can be served. */
  shift(hasFree: (owner: number, isBulk: boolean) => boolean): string | undefined {
    return this.#ordinary.shift((owner) => hasFree(owner, false)) ?? this.#bulk.shift((owner) => hasFree(owner, true))
  }

  /** The turn of a lane that was taken out has ended. */
  endTurn(lane: string): void {
    this.#of(isBulkLane(lane)).endTurn(lane)
  }

  #of(isBulk: boolean): Turns {
    return isBulk ? this.#bulk : this.#ordinary
  }
}

/** Lanes of one kind. */
class Turns {
  /** Of each owner, in the order of the owners' turns. */
  readonly #waiting = new Map<number, Set<string>>()
  readonly #ownerOfWaiting = new Map<string, number>()
  /** Lanes that were taken out and have not had their turn yet, with their owners. */
  readonly #woken = new Map<string, number>()
  /** How many lanes each owner has here, woken ones included. */
  readonly #wanting = new Counts()

  get isEmpty(): boolean {
    return this.#wanting.size === 0
  }

  hasOwner(isMeant: (owner: number) => boolean): boolean {
    for (const owner of this.#wanting.keys()) if (isMeant(owner)) return true
    return false
  }

  wantsSlots(owner: number): boolean {
    return this.#wanting.of(owner) > 0
  }

  countSharers(owner: number): number {
    return this.#wanting.size + (this.#wanting.of(owner) === 0 ? 1 : 0)
  }

  add(lane: string, owner: number): void {
    if (this.has(lane)) return
    const lanes = this.#waiting.get(owner)
    if (lanes) lanes.add(lane)
    else this.#waiting.set(owner, new Set([lane]))
    this.#ownerOfWaiting.set(lane, owner)
    this.#wanting.add(owner, 1)
  }

  delete(lane: string): void {
    this.#takeOut(lane)
    this.endTurn(lane)
  }

  has(lane: string): boolean {
    return this.#ownerOfWaiting.has(lane)
  }

  all(): string[] {
    return [...this.#waiting.values()].flatMap((lanes) => [...lanes])
  }

  shift(isServable: (owner: number) => boolean): string | undefined {
    for (const [owner, lanes] of this.#waiting) {
      const [lane] = lanes
      if (lane === undefined || !isServable(owner)) continue
      this.#takeOut(lane)
      if (lanes.size > 0) {
        // Behind the other owners.
        this.#waiting.delete(owner)
        this.#waiting.set(owner, lanes)
      }
      this.#woken.set(lane, owner)
      this.#wanting.add(owner, 1)
      return lane
    }
    return undefined
  }

  endTurn(lane: string): void {
    const owner = this.#woken.get(lane)
    if (owner === undefined) return
    this.#woken.delete(lane)
    this.#wanting.add(owner, -1)
  }

  #takeOut(lane: string): void {
    const owner = this.#ownerOfWaiting.get(lane)
    if (owner === undefined) return
    const lanes = this.#waiting.get(owner)
    lanes?.delete(lane)
    if (lanes?.size === 0) this.#waiting.delete(owner)
    this.#ownerOfWaiting.delete(lane)
    this.#wanting.add(owner, -1)
  }
}
