/**
 * @module Large messages and the memory budget: each is started once there is memory for it, in the order of their coming, bulk mail after all
 * other. Small ones pass by.
 * Never reads a message; it knows its size.
 */
import type { MemoryBudget, Reservation } from '#platform/memory-budget.ts'
import type { PreparedJob } from './job.ts'

/** A composed and signed message, its source and its copy for the socket. */
const MEMORY_FACTOR = 4
const SMALL_MESSAGE_BYTES = 64 * 1024

/** `T` says whose job it is, by identity. */
export class MemoryQueue<T> {
  readonly #memory: MemoryBudget
  readonly #start: (owner: T, prepared: PreparedJob) => void
  readonly #isBulk: (owner: T) => boolean
  /** Large messages in work, with what each has of the budget. */
  readonly #inWork = new Map<T, Reservation | undefined>()
  /** Jobs for which there is no memory yet: oldest first, behind all others those of bulk mail. */
  #waiting: { owner: T; prepared: PreparedJob; bytes: number }[] = []

  /** @param isBulk whether the owner's mail gives way to that of others */
  constructor(memory: MemoryBudget, start: (owner: T, prepared: PreparedJob) => void, isBulk: (owner: T) => boolean) {
    this.#memory = memory
    this.#start = start
    this.#isBulk = isBulk
  }

  /** Starts a job, now or when there is memory for it. */
  enter(owner: T, prepared: PreparedJob): void {
    const { sizeBytes } = prepared
    const bytes = sizeBytes <= SMALL_MESSAGE_BYTES ? 0 : sizeBytes * MEMORY_FACTOR
    if (bytes > 0 && (this.#ahead(owner) > 0 || !this.#reserve(owner, bytes)))
      this.#waiting.splice(this.#ahead(owner), 0, { owner, prepared, bytes })
    else this.#start(owner, prepared)
  }

  /** How many of those who wait are started before a newcomer. */
  #ahead(owner: T): number {
    if (this.#isBulk(owner)) return this.#waiting.length
    const firstBulk = this.#waiting.findIndex((other) => this.#isBulk(other.owner))
    return firstBulk === -1 ? this.#waiting.length : firstBulk
  }

  /** Whose job has not been started yet. */
  waiting(): Set<T> {
    return new Set(this.#waiting.map(({ owner }) => owner))
  }

  /** Gives the memory of a started job back. Who waits for it is started by `startWaiting`. */
  release(owner: T): void {
    const reservation = this.#inWork.get(owner)
    this.#inWork.delete(owner)
    reservation?.release()
  }

  /** Starts those for whom there is memory now. */
  startWaiting(): void {
    while (this.#waiting[0]) {
      const { owner, prepared, bytes } = this.#waiting[0]
      if (!this.#reserve(owner, bytes)) return
      this.#waiting.shift()
      this.#start(owner, prepared)
    }
  }

  /** Nobody who waits is started any more. */
  clear(): void {
    this.#waiting = []
  }

  /** Takes a large job's share of the memory budget. The only large one always goes: else a message larger than the budget never would. */
  #reserve(owner: T, bytes: number): boolean {
    const reservation = this.#memory.reserve(bytes)
    if (!reservation && this.#inWork.size > 0) return false
    this.#inWork.set(owner, reservation)
    return true
  }
}
