/**
 * @module Entry of a delivery Worker: owns its share of the sessions of each pair. Accepts jobs, posts `begin` after
 * the server's 354 and waits for `go`, and posts each outcome. Decides nothing about retries.
 */
import { rankOfClass } from '#features/sending/queue/lanes.ts'
import { type ContentReader, createContentReader, MissingBlobError } from '#platform/content/read.ts'
import { isTransientError, toPublicReason } from '#platform/disk/storage-errors.ts'
import { collectPerTick } from '#platform/queue/collect-per-tick.ts'
import { FairQueue } from '#platform/queue/fair-queue.ts'
import { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { SharedBody } from '../message/compose.ts'
import type {
  AttemptResult,
  AttemptSession,
  ConnectionLimits,
  DeliverJob,
  FromWorker,
  ToWorker,
  WorkerSettings,
} from '../protocol.ts'
import { findSiteRejection } from '../verdict/replies.ts'
import { AttemptTrace, Connections } from './connections.ts'
import { prepareMessage, SessionPool, SigningKeys, transmit } from './deliver.ts'

declare const self: Worker

interface ComposedMessage {
  readonly job: DeliverJob
  readonly message: readonly Uint8Array[]
}

interface MessageQueue {
  readonly key: string
  /** Accounts take turns; of an account's messages, those of a higher priority go first. */
  readonly waiting: FairQueue<ComposedMessage>
  /** Bulk mail: runs when nothing else waits, and leaves some connections for other mail. */
  readonly waitingBulk: FairQueue<ComposedMessage>
  readonly sessions: SessionPool
  /** Messages that are being composed. They keep the queue, and with it limits that change meanwhile. */
  composing: number
}

/** A delivery Worker, created once it has its settings. */
class DeliveryWorker {
  readonly #settings: WorkerSettings
  readonly #content: ContentReader
  readonly #connections: Connections
  /** By key of their limits. */
  readonly #queues = new Map<string, MessageQueue>()
  /** Recipients whose `begin` was posted but not answered. */
  readonly #awaitingGo = new Map<number, PromiseWithResolvers<void>>()
  /** Recipients with a session, or with one being opened. */
  readonly #attempts = new Map<number, AbortController>()
  readonly #keys = new SigningKeys()
  /** Accounts take turns to compose. Broadcasts are separate owners, so they do not delay the account's other mail. */
  readonly #composing = new FairScheduler({ clock: systemClock, overload: () => new Error('compose queue full') })
  /** Shared bodies by email, with the number of jobs in flight here. */
  readonly #bodies = new Map<number, { readonly shared: SharedBody; jobs: number }>()
  #isDraining = false

  constructor(settings: WorkerSettings) {
    this.#settings = settings
    this.#content = createContentReader(settings.contentFolder)
    this.#connections = new Connections(systemClock, settings, (failure) => send({ type: 'address_failed', failure }))
  }

  handle(message: Exclude<ToWorker, { type: 'settings' }>): void {
    if (message.type === 'key') this.#keys.add(message)
    else if (message.type === 'start') void this.#start(message)
    else if (message.type === 'limits') this.#setLimits(message.limits)
    else if (message.type === 'cut') this.#cut(new Set(message.recipientIds))
    else if (message.type === 'drain') this.#drain()
    else {
      const waiting = this.#awaitingGo.get(message.recipientId)
      this.#awaitingGo.delete(message.recipientId)
      if (message.ok) waiting?.resolve()
      else waiting?.reject(new Error('delivery start not stored'))
    }
  }

  async #start({ job, owner, laneClass, limits }: Extract<ToWorker, { type: 'start' }>): Promise<void> {
    const isBulk = laneClass === 'bulk'
    const body = this.#bodies.get(job.emailId) ?? { shared: {}, jobs: 0 }
    this.#bodies.set(job.emailId, body)
    body.jobs++
    const queue = this.#ensureQueue(limits)
    queue.composing++
    try {
      const steps = this.#compose(job, body.shared)
      // Most messages take one step, which runs immediately when no other message waits: scheduling it would cost a
      // tenth more CPU.
      const first = this.#composing.size === 0 ? steps.next() : undefined
      const message = first?.done
        ? first.value
        : await this.#composing.runSteps(isBulk ? `bulk ${owner}` : owner, steps)
      if (!message || this.#isDraining) return this.#end(job, { kind: 'dropped' })
      const waiting = isBulk ? queue.waitingBulk : queue.waiting
      waiting.push(owner, { job, message }, 1, { rank: rankOfClass(laneClass) })
    } catch (error) {
      this.#end(job, toFailureResult(error))
    } finally {
      queue.composing--
      this.#serve(queue)
    }
  }

  /** Returns undefined when the Worker drains, because then nothing more is sent. */
  *#compose(job: DeliverJob, shared: SharedBody): Generator<void, readonly Uint8Array[] | undefined> {
    if (this.#isDraining) return undefined
    return yield* prepareMessage(job, shared, this.#content, this.#keys, this.#settings.tracking)
  }

  #ensureQueue(limits: ConnectionLimits): MessageQueue {
    const existing = this.#queues.get(limits.key)
    if (existing) {
      existing.sessions.setLimits(limits)
      return existing
    }
    const queue: MessageQueue = {
      key: limits.key,
      waiting: new FairQueue(),
      waitingBulk: new FairQueue(),
      sessions: new SessionPool(systemClock, limits, () => this.#serve(queue)),
      composing: 0,
    }
    this.#queues.set(limits.key, queue)
    return queue
  }

  #setLimits(limits: ConnectionLimits): void {
    const queue = this.#queues.get(limits.key)
    if (!queue) return
    queue.sessions.setLimits(limits)
    this.#serve(queue)
  }

  #serve(queue: MessageQueue): void {
    const { sessions, waiting, waitingBulk } = queue
    // Another Worker has all connections now, so the messages here return to the queue.
    if (!sessions.isAllowed(false)) this.#dropAll(takeWaiting(queue))
    else if (!sessions.isAllowed(true)) this.#dropAll(waitingBulk.remove(() => true))
    for (let next = takeNext(queue); next; next = takeNext(queue)) {
      sessions.beginAttempt()
      void this.#run(queue, next.job, next.message)
    }
    const messages = waiting.size + waitingBulk.size + queue.composing
    if (sessions.isEmpty && messages === 0 && this.#queues.get(queue.key) === queue) this.#queues.delete(queue.key)
  }

  async #run(queue: MessageQueue, job: DeliverJob, message: readonly Uint8Array[]): Promise<void> {
    const attempt = new AbortController()
    this.#attempts.set(job.recipientId, attempt)
    const trace = new AttemptTrace(systemClock)
    try {
      const { result, session } = await transmit(job, message, this.#connections, queue.sessions, {
        beforeBody: () => this.#begin(job.recipientId),
        signal: attempt.signal,
        trace,
      })
      this.#end(job, result, session, trace)
      // After a site rejection or a failure to dial, the messages that wait for the same site return to the queue
      // without counting an attempt.
      if (result.kind === 'proxy_failed' && result.isDead) this.#dropAll(takeWaiting(queue))
      else if (result.kind === 'postponed' || result.kind === 'proxy_failed' || findSiteRejection(result) !== undefined)
        this.#dropAll(takeWaiting(queue, ({ job: behind }) => behind.route.site === job.route.site))
    } catch (error) {
      this.#end(job, toFailureResult(error))
    } finally {
      this.#attempts.delete(job.recipientId)
      queue.sessions.endAttempt()
      this.#serve(queue)
    }
  }

  #begin(recipientId: number): Promise<void> {
    if (this.#isDraining) return Promise.reject(new Error('the service is stopping'))
    const begun = Promise.withResolvers<void>()
    this.#awaitingGo.set(recipientId, begun)
    send({ type: 'begin', recipientId })
    return begun.promise
  }

  #end(job: DeliverJob, result: AttemptResult, session?: AttemptSession, trace?: AttemptTrace): void {
    const body = this.#bodies.get(job.emailId)
    if (body && --body.jobs === 0) this.#bodies.delete(job.emailId)
    const { recipientId } = job
    send({ type: 'outcome', recipientId, result, session, ...(trace && { trace: trace.toData() }) })
  }

  /** Removes waiting messages first: otherwise they would get the connections of the attempts that end. */
  #cut(recipientIds: ReadonlySet<number>): void {
    for (const queue of this.#queues.values())
      this.#dropAll(takeWaiting(queue, ({ job: { recipientId } }) => recipientIds.has(recipientId)))
    for (const recipientId of recipientIds) this.#attempts.get(recipientId)?.abort()
  }

  #drain(): void {
    this.#isDraining = true
    for (const queue of this.#queues.values()) {
      this.#dropAll(takeWaiting(queue))
      queue.sessions.closeAllIdle()
    }
  }

  #dropAll(messages: readonly ComposedMessage[]): void {
    for (const { job } of messages) this.#end(job, { kind: 'dropped' })
  }
}

const send = collectPerTick<FromWorker>(setImmediate, (messages) => self.postMessage(JSON.stringify(messages)))

function toFailureResult(error: unknown): AttemptResult {
  if (error instanceof MissingBlobError) return { kind: 'content_missing' }
  const detail = error instanceof Error ? error.message : String(error)
  return isTransientError(error)
    ? { kind: 'postponed', detail }
    : { kind: 'broken', message: toPublicReason(error), detail }
}

/** Removes and returns the messages that wait in a queue: all, or the matching ones. */
const takeWaiting = (
  { waiting, waitingBulk }: MessageQueue,
  isMatch = (_: ComposedMessage) => true,
): ComposedMessage[] => [...waiting.remove(isMatch), ...waitingBulk.remove(isMatch)]

/** The next message for a free connection; undefined when no connection is free for a waiting message. */
const takeNext = ({ waiting, waitingBulk, sessions }: MessageQueue): ComposedMessage | undefined =>
  (
    (sessions.hasCapacity(false) ? waiting.shift() : undefined) ??
    (sessions.hasCapacity(true) ? waitingBulk.shift() : undefined)
  )?.item

/** Handles the messages to this Worker. The first one is `settings`; it comes only once and creates the Worker. */
function listen(): void {
  let worker: DeliveryWorker | undefined
  self.onmessage = ({ data }: MessageEvent<string>) => {
    for (const message of JSON.parse(data) as ToWorker[]) {
      if (message.type === 'settings') worker = new DeliveryWorker(message.settings)
      else worker?.handle(message)
    }
  }
}

listen()
