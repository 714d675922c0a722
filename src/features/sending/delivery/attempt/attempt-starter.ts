/**
 * @module Starts the attempts of claimed recipients: chooses their Worker, builds their jobs, has broadcasts rendered,
 * waits for memory, and sends them to the Worker. Never claims, and never judges an outcome of a Worker.
 */

import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { findAttemptLogFields } from '#features/sending/queue/email.ts'
import { accountOfLane, classOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { readSnapshot } from '#platform/db/open.ts'
import { isTransientError, toPublicReason } from '#platform/disk/storage-errors.ts'
import type { MemoryBudget, Reservation } from '#platform/process/memory-budget.ts'
import { Counts } from '#platform/queue/counts.ts'
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'
import { JobBuilder, type PreparedJob, type UnrenderedJob } from '../message/job.ts'
import { RenderQueue, TemplateError } from '../message/render-broadcast.ts'
import type { Route } from '../protocol.ts'
import type { Instant, Pair } from '../providers/pair.ts'
import type { Destination } from '../sites/sites.ts'
import type { AttemptResults } from './attempt-results.ts'
import { type ClaimedRecipient, SMALL_MESSAGE_BYTES } from './claim.ts'
import { computeMaxWantedBodyMs, type InFlightAttempt, type InFlightAttempts } from './in-flight-attempts.ts'
import type { TotalLimits, WorkerPool } from './worker-pool.ts'

/** How often a message is in memory: composed, in parts, and on its way to the socket. */
const MEMORY_FACTOR = 2
/** Of the memory budget: requests can always use the rest, even while servers accept large messages slowly. */
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
  readonly #heldBytes = new Counts()
  readonly #waiting = new FairQueue<WaitingJob<T>>()
  readonly #waitingBulk = new FairQueue<WaitingJob<T>>()

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
    this.startWaiting()
  }

  get hasWaiting(): boolean {
    return this.#waiting.size + this.#waitingBulk.size > 0
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

  /** Without another body in memory, one is accepted without a reservation: else a huge one would never be sent. */
  #reserve({ body: name, tenant, prepared: { sizeBytes } }: WaitingJob<T>): HeldBody | undefined {
    const { memory } = this.#options
    const bytes = sizeBytes * MEMORY_FACTOR
    const isWithin = this.#heldBytes.total + bytes <= memory.limitBytes * DELIVERY_FRACTION
    const reservation = isWithin ? memory.reserve(bytes) : undefined
    if (!reservation && this.#bodies.size > 0) return undefined
    return { name, tenant, bytes, reservation, owners: 0 }
  }
}

export interface AttemptStarterOptions {
  readonly app: App
  readonly attempts: InFlightAttempts
  readonly results: AttemptResults
  readonly instant: () => Instant
  /** Undefined until delivery has started. */
  readonly pool: () => WorkerPool | undefined
  readonly onMemoryWanted: () => void
}

/** What the recipients of one claim have in common. */
export interface ClaimedFor {
  readonly lane: string
  readonly destination: Destination
  /** State of the pair of the destination at the claim. */
  readonly pairGeneration: number
  /** From the outgoing address of the pair. */
  readonly route: Route
}

/** Maximum length of the stored reason why an email could not be built. */
const MAX_REASON_LENGTH = 1000

export class AttemptStarter {
  readonly memoryQueue: MemoryQueue<InFlightAttempt>
  readonly #options: AttemptStarterOptions
  readonly #jobs: JobBuilder
  /** Attempts to be rendered, and those whose bodies no Worker has yet. */
  readonly #renderQueue = new RenderQueue<InFlightAttempt>()

  constructor(options: AttemptStarterOptions) {
    const { app } = options
    this.#options = options
    this.#jobs = new JobBuilder(app)
    this.memoryQueue = new MemoryQueue({
      memory: app.memory,
      tenantOf: (accountId) => getTenantId(app.db, accountId),
      start: (attempt, prepared) => this.#sendToWorker(attempt, prepared),
      isBulk: (attempt) => isBulkLane(attempt.lane),
      workerOf: (attempt) => attempt.worker,
    })
  }

  start(claimed: readonly ClaimedRecipient[], claimedFor: ClaimedFor): void {
    const { app, attempts } = this.#options
    const { lane, destination, pairGeneration, route } = claimedFor
    const limits = limitsOf(destination.pair, this.#options.instant())
    const pool = this.#options.pool()
    const isBulk = isBulkLane(lane)
    const started = claimed.map(
      (recipient): InFlightAttempt => ({
        ...recipient,
        startedAt: undefined,
        lane,
        destination,
        isRelayed: route.smarthost !== undefined,
        pairGeneration,
        sentToWorkerAt: undefined,
        maxWantedBodyMs: computeMaxWantedBodyMs(0),
        limits,
        // Recipients who share a large body share a Worker: each Worker would need memory and time for it.
        worker: pool?.assign(limits, isBulk, recipient.mail.sharesLargeBody ? recipient.emailId : undefined) ?? 0,
        settling: undefined,
      }),
    )
    for (const attempt of started) attempts.add(attempt)
    // One snapshot, because each read outside of it would acquire the lock of the database again.
    readSnapshot(app.db, () => {
      for (const attempt of started) this.#build(attempt, route)
    })
  }

  /** Releases what an attempt that has ended held, but starts no waiting one. */
  release(attempt: InFlightAttempt): void {
    this.#renderQueue.leave(attempt)
    this.memoryQueue.release(attempt)
    this.#options.pool()?.leave(attempt.worker, attempt.limits)
  }

  /** Drops everything that no Worker has yet. */
  clear(): void {
    this.#renderQueue.clear()
    this.memoryQueue.clear()
  }

  #build(attempt: InFlightAttempt, route: Route): void {
    try {
      const built = this.#jobs.build(attempt, attempt.mail.address, route)
      if ('render' in built)
        this.#renderQueue.enqueue(attempt, this.#ownerOf(attempt), () => void this.#render(attempt, built))
      else this.memoryQueue.enqueue(attempt, built)
    } catch (error) {
      if (isTransientError(error)) this.#postpone(attempt, error)
      else this.#fail(attempt, error)
    }
  }

  async #render(attempt: InFlightAttempt, unrendered: UnrenderedJob): Promise<void> {
    const { attempts, results, onMemoryWanted } = this.#options
    try {
      const prepared = await unrendered.render()
      // The attempt ended during the rendering, for example by a shutdown.
      if (attempts.findUnsettled(attempt.recipientId) !== attempt) return
      this.memoryQueue.enqueue(attempt, prepared)
      onMemoryWanted()
    } catch (error) {
      if (attempts.findUnsettled(attempt.recipientId) !== attempt) return
      if (error instanceof TemplateError) return this.#fail(attempt, error)
      if (error instanceof MissingBlobError) return results.holdWithoutContent(attempt)
      this.#postpone(attempt, error)
    }
  }

  #sendToWorker(attempt: InFlightAttempt, prepared: PreparedJob): void {
    const { app, instant, pool } = this.#options
    attempt.sentToWorkerAt = app.clock.now()
    attempt.maxWantedBodyMs = computeMaxWantedBodyMs(prepared.sizeBytes)
    pool()?.start(attempt.worker, prepared, {
      owner: this.#ownerOf(attempt),
      laneClass: classOfLane(attempt.lane),
      // A suspension may have begun since the claim: then the Worker returns the message.
      limits: limitsOf(attempt.destination.pair, instant()),
    })
    this.#renderQueue.leave(attempt)
  }

  /** Returns a recipient to the queue without counting an attempt, because a later attempt may succeed. */
  #postpone(attempt: InFlightAttempt, error: unknown): void {
    const { app, attempts } = this.#options
    const fields = findAttemptLogFields(app.db, attempt)
    app.log.warn({ err: error, ...fields }, 'delivery postponed: cannot prepare the message')
    void attempts.settle(attempt, { kind: 'released' }, undefined)
  }

  #fail(attempt: InFlightAttempt, error: unknown): void {
    const { app, attempts } = this.#options
    app.log.error({ err: error, ...findAttemptLogFields(app.db, attempt) }, 'message not composed')
    const reason = toPublicReason(error).slice(0, MAX_REASON_LENGTH).toWellFormed()
    void attempts.settle(attempt, { kind: 'failed', reason }, undefined)
  }

  #ownerOf({ lane }: InFlightAttempt): number {
    return getTenantId(this.#options.app.db, accountOfLane(lane))
  }
}

/** The limits of the connections of a pair, over all Workers. */
export function limitsOf(pair: Pair, at: Instant): TotalLimits {
  const { messagesPerConnection, connectionAgeMs, idleMs } = pair.provider.policy
  return { key: pair.key, connections: pair.connections(at), messagesPerConnection, maxAgeMs: connectionAgeMs, idleMs }
}
