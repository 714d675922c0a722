/**
 * @module Starts each large message once the memory budget has capacity for it. Accounts share the memory fairly by
 * size; bulk mail comes after all other mail. Small messages do not wait. Recipients that share a body in one Worker
 * share its memory. Reports which started jobs block waiting ones. Never ends a job and never reads a message, only its
 * size.
 */
import type { MemoryBudget, Reservation } from '#platform/process/memory-budget.ts'
import { Counts } from '#platform/queue/counts.ts'
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'
import type { PreparedJob } from '../message/job.ts'

/**
 * A message uses this many times its size: for the composed message, its parts, and the data on its way to the socket.
 */
const MEMORY_FACTOR = 2
/** Messages up to this size wait for no memory. */
export const SMALL_MESSAGE_BYTES = 64 * 1024
/**
 * Fraction of the memory budget for deliveries. Requests can always use the rest, even while servers accept large
 * messages slowly.
 */
const DELIVERY_FRACTION = 1 / 2
/** Fraction of the memory budget. An account that holds this much starts no further message. */
const ACCOUNT_FRACTION = 1 / 8

export interface MemoryQueueOptions<T> {
  readonly memory: MemoryBudget
  /** The account that memory is counted for: sub-accounts share the memory of their parent. */
  readonly tenantOf: (accountId: number) => number
  readonly start: (owner: T, prepared: PreparedJob) => void
  /** Whether the owner's mail yields to other mail. */
  readonly isBulk: (owner: T) => boolean
  /** Index of the Worker that composes the owner's message. */
  readonly workerOf: (owner: T) => number
}

interface WaitingJob<T> {
  readonly owner: T
  readonly prepared: PreparedJob
  readonly tenant: number
  readonly body: string
}

/** A large body in memory. */
interface HeldBody {
  readonly name: string
  readonly tenant: number
  readonly bytes: number
  readonly reservation: Reservation | undefined
  owners: number
}

/** `T` identifies the owner of a job, by object identity. */
export class MemoryQueue<T> {
  readonly #options: MemoryQueueOptions<T>
  readonly #bodies = new Map<string, HeldBody>()
  readonly #bodyOf = new Map<T, HeldBody>()
  /** By account. */
  readonly #heldBytes = new Counts()
  readonly #waiting = new FairQueue<WaitingJob<T>>()
  readonly #waitingBulk = new FairQueue<WaitingJob<T>>()
  readonly #waitingOwners = new Set<T>()

  constructor(options: MemoryQueueOptions<T>) {
    this.#options = options
  }

  /** Starts a job immediately, or once there is memory for it. */
  enqueue(owner: T, prepared: PreparedJob): void {
    const { start, isBulk } = this.#options
    if (prepared.sizeBytes <= SMALL_MESSAGE_BYTES) {
      start(owner, prepared)
      return
    }
    const tenant = this.#options.tenantOf(prepared.job.accountId)
    const waiting = { owner, prepared, tenant, body: this.#nameBody(owner, prepared) }
    const held = this.#bodies.get(waiting.body)
    // Joins a body in memory, unless other accounts wait for that memory: each further recipient would hold it longer.
    if (held && !this.#isBlockingOthers(tenant)) {
      this.#start(waiting, held)
      return
    }
    const queue = isBulk(owner) ? this.#waitingBulk : this.#waiting
    queue.push(tenant, waiting, prepared.sizeBytes)
    this.#waitingOwners.add(owner)
    this.startWaiting()
  }

  /** The owners whose jobs have not started yet. */
  waiting(): ReadonlySet<T> {
    return new Set(this.#waitingOwners)
  }

  get hasWaiting(): boolean {
    return this.#waitingOwners.size > 0
  }

  /** Whether a started job holds memory that mail of other accounts waits for. */
  isBlockingOthers(owner: T): boolean {
    const body = this.#bodyOf.get(owner)
    return body !== undefined && this.#isBlockingOthers(body.tenant)
  }

  /** Whether a started job holds memory while other mail of its account waits for some. */
  isBlockingOwn(owner: T): boolean {
    const body = this.#bodyOf.get(owner)
    return body !== undefined && this.#waiting.sizeOf(body.tenant) + this.#waitingBulk.sizeOf(body.tenant) > 0
  }

  /** Releases the memory of a started job, but starts no waiting job; call `startWaiting` for that. */
  release(owner: T): void {
    const body = this.#bodyOf.get(owner)
    this.#bodyOf.delete(owner)
    if (!body || --body.owners > 0) return
    this.#bodies.delete(body.name)
    this.#heldBytes.add(body.tenant, -body.bytes)
    body.reservation?.release()
  }

  /** Starts the waiting jobs for which there is memory now. */
  startWaiting(): void {
    let result: 'started' | 'full' | 'none'
    do {
      result = this.#startNext(this.#waiting)
      if (result === 'none') result = this.#startNext(this.#waitingBulk)
    } while (result === 'started')
  }

  /** Drops all waiting jobs; they never start. */
  clear(): void {
    for (const queue of [this.#waiting, this.#waitingBulk]) queue.remove(() => true)
    this.#waitingOwners.clear()
  }

  #nameBody(owner: T, { job, isBodyShared }: PreparedJob): string {
    return isBodyShared ? `${job.emailId} in ${this.#options.workerOf(owner)}` : `${job.emailId} for ${job.recipientId}`
  }

  #startNext(queue: FairQueue<WaitingJob<T>>): 'started' | 'full' | 'none' {
    const isServable = (tenant: Owner) => !this.#isAtLimit(Number(tenant))
    const next = queue.peek(isServable)
    if (!next) return 'none'
    const held = this.#bodies.get(next.body) ?? this.#reserve(next)
    if (!held) return 'full'
    queue.shift(isServable)
    this.#start(next, held)
    // Other waiting jobs with the same body share the memory that is reserved now.
    for (const waiting of queue.remove(({ body }) => body === next.body)) this.#start(waiting, held)
    return 'started'
  }

  #start({ owner, prepared }: WaitingJob<T>, body: HeldBody): void {
    if (body.owners++ === 0) {
      this.#bodies.set(body.name, body)
      this.#heldBytes.add(body.tenant, body.bytes)
    }
    this.#bodyOf.set(owner, body)
    this.#waitingOwners.delete(owner)
    this.#options.start(owner, prepared)
  }

  #isAtLimit(tenant: number): boolean {
    return this.#heldBytes.of(tenant) >= this.#options.memory.limitBytes * ACCOUNT_FRACTION
  }

  /** Whether another account that is below its own limit has mail waiting. */
  #isBlockingOthers(tenant: number): boolean {
    const isBlocked = (other: Owner) => other !== tenant && !this.#isAtLimit(Number(other))
    return [this.#waiting, this.#waitingBulk].some((queue) => queue.peek(isBlocked) !== undefined)
  }

  /**
   * Reserves memory for a body. While no other body is in memory, a body is accepted even without a reservation;
   * otherwise a message above the budget would never be sent.
   */
  #reserve({ body: name, tenant, prepared: { sizeBytes } }: WaitingJob<T>): HeldBody | undefined {
    const { memory } = this.#options
    const bytes = sizeBytes * MEMORY_FACTOR
    const isWithin = this.#heldBytes.total + bytes <= memory.limitBytes * DELIVERY_FRACTION
    const reservation = isWithin ? memory.reserve(bytes) : undefined
    if (!reservation && this.#bodies.size > 0) return undefined
    return { name, tenant, bytes, reservation, owners: 0 }
  }
}
