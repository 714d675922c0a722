/**
 * @module Starts the attempts of claimed recipients: chooses their Worker, builds their jobs, has broadcasts rendered,
 * waits for memory, and sends them to the Worker. Never claims, and never judges an outcome of a Worker.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, classOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { findEmailLogFields } from '#features/sending/queue/names.ts'
import type { DomainPolicy } from '#features/sending/transport-security/domain-policy.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { readSnapshot } from '#platform/db/open.ts'
import { isTransientError, toPublicReason } from '#platform/disk/storage-errors.ts'
import { JobBuilder, type PreparedJob, type UnrenderedJob } from '../message/job.ts'
import { TemplateError } from '../message/render-broadcast.ts'
import { RenderQueue } from '../message/render-queue.ts'
import type { Route } from '../model/protocol.ts'
import type { Instant, Pair } from '../providers/pair.ts'
import type { Destination } from '../sites/sites.ts'
import type { AttemptResults } from './attempt-results.ts'
import type { ClaimedRecipient } from './claim.ts'
import type { InFlightAttempt, InFlightAttempts } from './in-flight-attempts.ts'
import { MemoryQueue } from './memory-queue.ts'
import { computeMaxWantedBodyMs } from './slow-attempts.ts'
import type { WorkerPool } from './worker-pool.ts'
import type { TotalLimits } from './worker-shares.ts'

export interface AttemptStarterOptions {
  readonly app: App
  readonly attempts: InFlightAttempts
  readonly results: AttemptResults
  readonly instant: () => Instant
  /** Undefined until delivery has started. */
  readonly pool: () => WorkerPool | undefined
  /** Called when a rendered message may wait for memory. */
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
  readonly tlsPolicy: DomainPolicy | undefined
}

/** Maximum length of the stored reason why an email could not be built. */
const MAX_REASON_LENGTH = 1000

export class AttemptStarter {
  /** Attempts whose messages wait for memory. */
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

  /** Starts the attempts of recipients that were claimed together. */
  start(claimed: readonly ClaimedRecipient[], claimedFor: ClaimedFor): void {
    const { app, attempts } = this.#options
    const { lane, destination, pairGeneration, route, tlsPolicy } = claimedFor
    const limits = limitsOf(destination.pair, this.#options.instant())
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
        worker: this.#assignWorker(recipient, limits, isBulkLane(lane)),
        settling: undefined,
        tlsPolicy,
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

  /** Recipients who share a large body share a Worker: each Worker would need memory and time for it. */
  #assignWorker({ emailId, mail }: ClaimedRecipient, limits: TotalLimits, isBulk: boolean): number {
    return this.#options.pool()?.assign(limits, isBulk, mail.sharesLargeBody === 1 ? emailId : undefined) ?? 0
  }

  #build(attempt: InFlightAttempt, route: Route): void {
    try {
      const built = this.#jobs.build(attempt, attempt.mail.address, route)
      if ('isTlsReport' in built) attempt.tlsPolicy = undefined
      if ('render' in built)
        this.#renderQueue.enqueue(attempt, this.#ownerOf(attempt), () => void this.#render(attempt, built))
      else this.memoryQueue.enqueue(attempt, built)
    } catch (error) {
      if (isTransientError(error)) this.#postpone(attempt, error)
      else this.#fail(attempt, error)
    }
  }

  /** Starts the job of a broadcast email once it is rendered. */
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
    app.log.warn(
      { err: error, ...findEmailLogFields(app.db, attempt.emailId), recipient: attempt.recipientId },
      'delivery postponed: cannot prepare the message',
    )
    void attempts.settle(attempt, { kind: 'released' }, undefined)
  }

  #fail(attempt: InFlightAttempt, error: unknown): void {
    const { app, attempts } = this.#options
    app.log.error(
      { err: error, ...findEmailLogFields(app.db, attempt.emailId), recipient: attempt.recipientId },
      'message not composed',
    )
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
