/**
 * @module The renderer on the main thread: queues requests and runs the render Worker, which starts with the first
 * template. Each account has a queue; accounts take turns, and `bulk` runs only when nothing else waits. A request
 * that kills the Worker affects no other request. An account whose request keeps the Worker busy for more than two
 * seconds is refused for a minute.
 *
 * waiting → running → answered
 */

import { startWorker } from '#platform/process/workers.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import { AppError } from '../errors.ts'
import { Counts } from '../queue/counts.ts'
import { RoundRobin } from '../queue/round-robin.ts'
import { dataFault, sourceFault } from './faults.ts'
import * as limits from './limits.ts'
import {
  type FromRenderWorker,
  PARTS,
  RENDER_INTERRUPTED,
  type RenderOutcome,
  type RenderRequest,
  type TemplateFault,
  type TemplateSource,
  type ToRenderWorker,
} from './renderer.ts'

export interface RendererOptions {
  readonly clock: Clock
  readonly log: { error(context: object, message: string): void; warn(context: object, message: string): void }
  /**
   * Starts the Worker; tests pass their own, to get hold of the Worker and end it, or to start one that never answers.
   */
  readonly newWorker?: () => Worker
}

type Urgency = RenderRequest['urgency']

interface Job {
  readonly id: number
  readonly accountId: number
  readonly urgency: Urgency
  readonly sizeBytes: number
  readonly message: (share: number) => ToRenderWorker
  readonly answer: (message: FromRenderWorker) => void
  readonly fail: (fault: TemplateFault) => void
  readonly reject: (error: Error) => void
}

/** An account whose renders recently exceeded limits. */
interface Offender {
  strikes: readonly Millis[]
  penaltyUntil: Millis
  /** Nothing is rendered for the account until this time. */
  refusedUntil: Millis
}

interface RunningWorker {
  readonly worker: Worker
  isReady: boolean
  silentChecks: number
}

const QUEUE_FULL = 'Too many of your templates are waiting to be rendered; try again in a moment.'
const ALL_QUEUES_FULL = 'Too many templates are waiting to be rendered; try again in a moment.'
const ACCOUNT_REFUSED = 'One of your templates took far too long; simplify it, and try again in a minute.'
const BULK_PENALTY =
  'Your templates exceeded their time or memory several times; bulk mail is not rendered for a minute.'
const STOPPING = 'The service is stopping; try again in a moment.'

const serverBusyError = (message: string, retryAfterSeconds = 1): AppError =>
  new AppError(503, 'server_busy', message, { retryAfterSeconds })

const RENDER_TIMEOUT = dataFault('limit', 'The template takes too much time or memory: simplify it.')

export type Renderer = Pick<WorkerRenderer, keyof WorkerRenderer>

/** A renderer in a Worker that starts with the first request. Accounts take turns. */
export class WorkerRenderer {
  readonly #clock: RendererOptions['clock']
  readonly #log: RendererOptions['log']
  readonly #newWorker: () => Worker
  readonly #waiting = { now: new RoundRobin<Job>(), bulk: new RoundRobin<Job>() }
  /** Bytes of waiting requests, by account. */
  readonly #waitingBytes = { now: new Counts(), bulk: new Counts() }
  readonly #offenders = new Map<number, Offender>()
  #current: Job | undefined
  #running: RunningWorker | undefined
  #timer: Timer | undefined
  #isWatchingWork = false
  #isClosed = false
  #isDraining = false
  #lastId = 0

  constructor({ clock, log, newWorker = () => startWorker('render') }: RendererOptions) {
    this.#clock = clock
    this.#log = log
    this.#newWorker = newWorker
  }

  /**
   * Renders a message; the same request always gives the same result. Rejects only when the renderer is full, closed or
   * broken; a retry may then succeed.
   */
  render(request: RenderRequest): Promise<RenderOutcome> {
    return this.#submit<RenderOutcome>(
      request,
      request.dataJson,
      (id, share) => ({ type: 'render', id, source: request.source, dataJson: request.dataJson, share }),
      (message) => (message.type === 'rendered' ? message.outcome : undefined),
      (fault) => ({ kind: 'fault', fault }),
    )
  }

  /** Returns the syntax errors of all parts. */
  check({ accountId, source }: Pick<RenderRequest, 'accountId' | 'source'>): Promise<readonly TemplateFault[]> {
    return this.#submit<readonly TemplateFault[]>(
      { accountId, source, urgency: 'now' },
      '',
      (id) => ({ type: 'check', id, source }),
      (message) => (message.type === 'checked' ? message.faults : undefined),
      (fault) => [fault],
    )
  }

  /** Refuses new and waiting requests; the request being rendered still gets its result. */
  drain(): void {
    this.#isDraining = true
    for (const job of this.#removeWaiting()) job.reject(serverBusyError(STOPPING))
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#running?.worker.terminate()
    this.#running = undefined
    const openJobs = [...(this.#current ? [this.#current] : []), ...this.#removeWaiting()]
    this.#current = undefined
    for (const job of openJobs) job.reject(new Error('the renderer is closed'))
  }

  #start(): RunningWorker {
    const started: RunningWorker = { worker: this.#newWorker(), isReady: false, silentChecks: 0 }
    const { worker } = started
    worker.onmessage = ({ data }: MessageEvent<FromRenderWorker>) => {
      if (this.#running !== started) return
      started.silentChecks = 0
      if (data.type === 'ready') started.isReady = true
      else this.#handleReply(data)
    }
    const died = (reason: string): void => {
      if (this.#running === started) this.#handleWorkerDeath(started, reason)
    }
    worker.onerror = (event) => died(event.message)
    worker.addEventListener('close', () => died('closed'))
    return started
  }

  #handleReply(message: Exclude<FromRenderWorker, { type: 'ready' }>): void {
    const job = this.#current
    if (job?.id !== message.id) return
    this.#current = undefined
    const isLimit =
      message.type === 'rendered'
        ? message.outcome.kind === 'fault' && message.outcome.fault.kind === 'limit'
        : message.faults.some(({ kind }) => kind === 'limit')
    // A bulk request gets no strike: it runs only when nothing else waits, so it delays no other account.
    if (isLimit && job.urgency === 'now') this.#recordStrike(job.accountId)
    job.answer(message)
    this.#dispatchNext()
  }

  /** Settles the request that a dead Worker was running, and continues with a new Worker. */
  #handleWorkerDeath(dead: RunningWorker, reason: string, isSilent = false): void {
    this.#running = undefined
    dead.worker.terminate()
    const failedJob = this.#current
    this.#current = undefined
    this.#log.error({ reason, accountId: failedJob?.accountId }, 'render worker died')
    if (failedJob) {
      // The Worker did not even start. So the template is not the cause, and the next request would fail as well.
      if (!dead.isReady) failedJob.reject(new Error(`the render worker could not be started: ${reason}`))
      else {
        this.#recordStrike(failedJob.accountId)
        if (isSilent) this.#refuseAccount(failedJob.accountId)
        // A waiting client gets an error that names its template as the cause. A bulk message gets an error that allows
        // a retry, because the message must not fail permanently if a retry may succeed.
        if (failedJob.urgency === 'now') failedJob.fail(RENDER_TIMEOUT)
        else failedJob.reject(new AppError(503, RENDER_INTERRUPTED, RENDER_TIMEOUT.message, { retryAfterSeconds: 1 }))
      }
    }
    this.#dispatchNext()
  }

  #recordStrike(accountId: number): void {
    const now = this.#clock.now()
    const known = this.#offenders.get(accountId)
    const strikes = [...(known?.strikes ?? []).filter((at) => at > now - limits.STRIKE_MS), now].slice(-limits.STRIKES)
    const penaltyUntil = strikes.length === limits.STRIKES ? now + limits.STRIKE_MS : (known?.penaltyUntil ?? now)
    this.#offenders.set(accountId, { strikes, penaltyUntil, refusedUntil: known?.refusedUntil ?? now })
  }

  /** Refuses new and waiting requests of an account for a while. */
  #refuseAccount(accountId: number): void {
    const offender = this.#offenders.get(accountId)
    if (offender) offender.refusedUntil = this.#clock.now() + limits.REFUSAL_MS
    for (const job of this.#removeWaiting((waiting) => waiting.accountId === accountId))
      job.reject(serverBusyError(ACCOUNT_REFUSED, limits.REFUSAL_MS / 1000))
  }

  /** Removes all waiting jobs, or those that `isSelected` selects. */
  #removeWaiting(isSelected: (job: Job) => boolean = () => true): Job[] {
    const jobs = [...this.#waiting.now.all(), ...this.#waiting.bulk.all()].filter(isSelected)
    for (const job of jobs) {
      this.#waiting[job.urgency].delete(job)
      this.#waitingBytes[job.urgency].add(job.accountId, -job.sizeBytes)
    }
    return jobs
  }

  #countWaiting(accountId: number): number {
    return this.#waiting.now.countOf(accountId) + this.#waiting.bulk.countOf(accountId)
  }

  /** Why a request of this size is refused; undefined when it is accepted. */
  #findRefusal(accountId: number, sizeBytes: number, urgency: Urgency): AppError | undefined {
    if (this.#isDraining) return serverBusyError(STOPPING)
    const refusedMs = (this.#offenders.get(accountId)?.refusedUntil ?? 0) - this.#clock.now()
    if (refusedMs > 0) return serverBusyError(ACCOUNT_REFUSED, Math.ceil(refusedMs / 1000))
    const bulkRefusal = urgency === 'bulk' ? this.#findBulkRefusal(accountId, sizeBytes) : undefined
    if (bulkRefusal) return bulkRefusal
    const { now, bulk } = this.#waitingBytes
    const count = this.#countWaiting(accountId)
    const isTooMuch = now.of(accountId) + bulk.of(accountId) + sizeBytes > limits.MAX_WAITING_BYTES
    if (count > 0 && (count >= limits.MAX_WAITING_REQUESTS || isTooMuch)) return serverBusyError(QUEUE_FULL)
    return now.total + bulk.total + sizeBytes > limits.MAX_TOTAL_WAITING_BYTES
      ? serverBusyError(ALL_QUEUES_FULL)
      : undefined
  }

  /**
   * Half of an account's capacity is reserved for requests that are not bulk. Bulk is refused during a penalty rather
   * than rendered with the penalty's smaller work allowance, which could make it fail permanently.
   */
  #findBulkRefusal(accountId: number, sizeBytes: number): AppError | undefined {
    const penaltyMs = (this.#offenders.get(accountId)?.penaltyUntil ?? 0) - this.#clock.now()
    if (penaltyMs > 0) return serverBusyError(BULK_PENALTY, Math.ceil(penaltyMs / 1000))
    if (this.#countWaiting(accountId) === 0) return undefined
    const isFull =
      this.#waiting.bulk.countOf(accountId) >= limits.MAX_WAITING_REQUESTS * limits.MAX_BULK_FRACTION ||
      this.#waitingBytes.bulk.of(accountId) + sizeBytes > limits.MAX_WAITING_BYTES * limits.MAX_BULK_FRACTION
    return isFull ? serverBusyError(QUEUE_FULL) : undefined
  }

  #readWorkFraction(accountId: number): number {
    const offender = this.#offenders.get(accountId)
    if (!offender) return 1
    const now = this.#clock.now()
    if (offender.penaltyUntil > now) return limits.PENALTY_FRACTION
    if (offender.strikes.every((at) => at <= now - limits.STRIKE_MS) && offender.refusedUntil <= now)
      this.#offenders.delete(accountId)
    return 1
  }

  #enqueue(urgency: Urgency, job: Job): void {
    const refused = this.#findRefusal(job.accountId, job.sizeBytes, urgency)
    if (refused) {
      job.reject(refused)
      return
    }
    this.#waiting[urgency].add(job.accountId, job)
    this.#waitingBytes[urgency].add(job.accountId, job.sizeBytes)
    this.#dispatchNext()
  }

  /** Takes the next job out of a queue. */
  #dequeue(urgency: Urgency): Job | undefined {
    const job = this.#waiting[urgency].shift()?.item
    if (job) this.#waitingBytes[urgency].add(job.accountId, -job.sizeBytes)
    return job
  }

  #dispatchNext(): void {
    if (!this.#isClosed && this.#current === undefined) {
      this.#current = this.#dequeue('now') ?? this.#dequeue('bulk')
      if (this.#current) {
        this.#running ??= this.#start()
        this.#running.worker.postMessage(
          this.#current.message(this.#current.urgency === 'bulk' ? 1 : this.#readWorkFraction(this.#current.accountId)),
        )
      }
    }
    this.#scheduleCheck()
  }

  /**
   * Schedules a check of the Worker: repeatedly while the Worker works, and once after it has been idle for a while.
   */
  #scheduleCheck(): void {
    const isBusy = this.#current !== undefined
    // A running timer is not restarted: under a steady stream of requests it would otherwise never fire.
    if (this.#timer && this.#running && this.#isWatchingWork === isBusy) return
    this.#timer?.cancel()
    this.#isWatchingWork = isBusy
    this.#timer =
      this.#running && this.#clock.after(isBusy ? limits.CHECK_INTERVAL_MS : limits.IDLE_MS, () => this.#checkWorker())
  }

  #checkWorker(): void {
    this.#timer = undefined
    if (!this.#running) return
    if (!this.#current) {
      this.#running.worker.terminate()
      this.#running = undefined
      return
    }
    this.#running.silentChecks++
    if (
      this.#running.silentChecks < (this.#running.isReady ? limits.MAX_SILENT_CHECKS : limits.MAX_CHECKS_WHILE_STARTING)
    )
      this.#scheduleCheck()
    else this.#handleWorkerDeath(this.#running, 'no response for too long', true)
  }

  #submit<T>(
    { accountId, source, urgency }: Pick<RenderRequest, 'accountId' | 'source' | 'urgency'>,
    dataJson: string,
    message: (id: number, share: number) => ToRenderWorker,
    answerOf: (message: FromRenderWorker) => T | undefined,
    failed: (fault: TemplateFault) => T,
  ): Promise<T> {
    if (this.#isClosed) return Promise.reject(new Error('the renderer is closed'))
    const tooLong = findTooLongPart(source, dataJson)
    if (tooLong) return Promise.resolve(failed(tooLong))
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId
      this.#enqueue(urgency, {
        id,
        accountId,
        urgency,
        sizeBytes: measureRequest(source.subject, source.html, source.text, dataJson),
        message: (share) => message(id, share),
        answer: (given) => {
          const answer = answerOf(given)
          if (answer === undefined) reject(new Error(`the render worker responded with ${given.type}`))
          else resolve(answer)
        },
        fail: (fault) => resolve(failed(fault)),
        reject,
      })
    })
  }
}

function findTooLongPart(source: TemplateSource, dataJson: string): TemplateFault | undefined {
  for (const [key, part] of PARTS)
    if (Buffer.byteLength(source[key] ?? '') > limits.MAX_SOURCE_BYTES)
      return sourceFault(part, limits.MAX_SOURCE_BYTES)
  if (Buffer.byteLength(dataJson) <= limits.MAX_DATA_BYTES) return undefined
  return dataFault('limit', `template_data is longer than ${limits.MAX_DATA_BYTES} bytes as JSON: make it shorter.`)
}

/**
 * Approximate memory of a waiting request. Counts each character as one byte, although some take two, because only the
 * order of magnitude matters.
 */
function measureRequest(...texts: readonly (string | undefined)[]): number {
  let sizeBytes = limits.REQUEST_BYTES
  for (const text of texts) sizeBytes += text?.length ?? 0
  return sizeBytes
}
