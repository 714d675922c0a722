/**
 * @module Delivery Workers for the model tests: they follow the protocol between scheduler and Workers (begin before the
 * message, limits, cut, drain, death), but compose and dial nothing; a model of the receivers answers. So hours of mail
 * pass in seconds.
 */

import {
  type TotalLimits,
  type WorkerPool,
  type WorkerPoolOptions,
  WorkerShares,
} from '#features/sending/delivery/attempt/worker-pool.ts'
import type { AttemptResult, DeliverJob, FromWorker, ToWorker } from '#features/sending/delivery/protocol.ts'
import type { LaneClass } from '#features/sending/queue/lanes.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'

/** What a receiver does with one message. */
export type Answer =
  /** The attempt ends before the message begins. */
  | { readonly kind: 'before'; readonly result: AttemptResult; readonly delayMs?: number }
  /** The attempt ends after the message began; `isReceived` is whether the receiver keeps the message. */
  | { readonly kind: 'after'; readonly result: AttemptResult; readonly isReceived: boolean; readonly delayMs?: number }
  /** The receiver says nothing until the attempt is ended, before or after the message began. */
  | { readonly kind: 'silent'; readonly step: 'before' | 'after' }

export interface Receivers {
  /** Called when a connection is free for the message. */
  answer(job: DeliverJob): Answer
  /** Called when a receiver keeps a message. */
  onReceived(job: DeliverJob): void
  /** Called when a connection is taken or left. @param open connections in use with this key */
  onConnections?(key: string, open: number): void
}

interface Attempt {
  readonly job: DeliverJob
  readonly worker: number
  readonly key: string
  readonly isBulk: boolean
  state: 'waiting' | 'running' | 'beginning' | 'begun'
  answer: Answer | undefined
}

/** How long a silent receiver is waited for. */
const SILENCE_MS = 300_000
const RESTART_DELAY_MS = 1000

export class ModelPool implements WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #receivers: Receivers
  readonly #shares: WorkerShares
  readonly #limits = new Map<string, TotalLimits>()
  readonly #attempts = new Map<number, Attempt>()
  readonly #waiting = new Map<string, Attempt[]>()
  readonly #running = new Map<string, number>()
  readonly #dead = new Set<number>()
  /** Messages to the scheduler, sent together in the next tick. */
  #outbox: { readonly worker: number; readonly message: FromWorker }[] = []
  #isDraining = false
  #hasEnded = false
  /** Counts what happens here, so that a test sees when nothing does. */
  activity = 0

  constructor(options: WorkerPoolOptions, receivers: Receivers) {
    this.#options = options
    this.#receivers = receivers
    this.#shares = new WorkerShares(options.count)
  }

  /** Attempts that a receiver keeps waiting. */
  get silent(): number {
    return [...this.#attempts.values()].filter(({ answer }) => answer?.kind === 'silent').length
  }

  assign(limits: TotalLimits, isBulk: boolean, sharedBody?: number): number {
    this.setLimits(limits)
    this.#shares.update(limits)
    return this.#shares.assign(limits.key, isBulk, sharedBody)
  }

  leave(worker: number, { key }: TotalLimits): void {
    this.#shares.leave(key, worker)
  }

  setLimits(limits: TotalLimits): void {
    this.#limits.set(limits.key, limits)
    if (this.#shares.has(limits.key)) this.#shares.update(limits)
    this.#serve(limits.key)
  }

  start(
    worker: number,
    prepared: { readonly job: DeliverJob },
    as: { laneClass: LaneClass; limits: TotalLimits },
  ): void {
    // The real pool loses what is posted to a Worker that has just died only if its death is not known yet.
    const { job } = prepared
    const { key } = as.limits
    this.#limits.set(key, as.limits)
    const attempt: Attempt = { job, worker, key, isBulk: as.laneClass === 'bulk', state: 'waiting', answer: undefined }
    this.#attempts.set(job.recipientId, attempt)
    this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), attempt])
    this.#later(() => this.#serve(key))
  }

  post(_worker: number, message: ToWorker): void {
    if (message.type === 'go') this.#go(message.recipientId, message.ok)
    if (message.type === 'cut') for (const id of message.recipientIds) this.#cut(id)
  }

  postAll({ type }: ToWorker): void {
    if (type !== 'drain') return
    this.#isDraining = true
    for (const attempt of [...this.#attempts.values()])
      if (attempt.state === 'waiting') this.#end(attempt, { kind: 'dropped' })
  }

  terminate(): void {
    this.#hasEnded = true
  }

  /** The process dies: nothing is sent or received any more. */
  crash(): void {
    this.#hasEnded = true
    this.#attempts.clear()
    this.#waiting.clear()
  }

  /** Kills a Worker with all its attempts. */
  kill(worker: number): void {
    if (this.#dead.has(worker) || this.#hasEnded) return
    this.#dead.add(worker)
    for (const attempt of [...this.#attempts.values()]) if (attempt.worker === worker) this.#forget(attempt)
    // What it had sent and the main thread has not read is lost, too.
    this.#outbox = this.#outbox.filter((sent) => sent.worker !== worker)
    this.#options.onDeath(worker)
    this.#options.clock.after(RESTART_DELAY_MS, () => {
      this.#dead.delete(worker)
      for (const key of [...this.#waiting.keys()]) this.#serve(key)
    })
  }

  get workers(): number {
    return this.#options.count
  }

  /** Gives free connections to waiting attempts; returns them to the queue while the limit is 0. */
  #serve(key: string): void {
    const waiting = this.#waiting.get(key)
    const limits = this.#limits.get(key)
    if (!waiting || !limits) return
    if (limits.connections === 0) for (const attempt of [...waiting]) this.#end(attempt, { kind: 'dropped' })
    for (const attempt of [...waiting]) {
      if (this.#dead.has(attempt.worker) || attempt.state !== 'waiting') continue
      if ((this.#running.get(key) ?? 0) >= limits.connections) break
      this.#leaveWaiting(attempt)
      this.#count(key, 1)
      attempt.state = 'running'
      this.#run(attempt)
    }
  }

  #run(attempt: Attempt): void {
    const answer = this.#receivers.answer(attempt.job)
    attempt.answer = answer
    if (answer.kind === 'before') this.#later(() => this.#end(attempt, answer.result), answer.delayMs)
    else if (answer.kind === 'silent' && answer.step === 'before')
      this.#later(() => this.#end(attempt, SILENCE), SILENCE_MS)
    else {
      attempt.state = 'beginning'
      this.#later(() => {
        if (this.#attempts.get(attempt.job.recipientId) === attempt)
          this.#send(attempt.worker, { type: 'begin', recipientId: attempt.job.recipientId })
      })
    }
  }

  #go(recipientId: number, ok: boolean): void {
    const attempt = this.#attempts.get(recipientId)
    if (attempt?.state !== 'beginning') return
    const { answer } = attempt
    if (!ok) {
      this.#end(attempt, { kind: 'aborted', error: new Error('delivery start not stored') })
      return
    }
    attempt.state = 'begun'
    if (answer?.kind !== 'after') {
      this.#later(() => this.#end(attempt, LOST_IN_MESSAGE), SILENCE_MS)
      return
    }
    this.#later(() => {
      if (this.#attempts.get(recipientId) !== attempt) return
      if (answer.isReceived) this.#receivers.onReceived(attempt.job)
      // The reply is on its way: the process or the Worker may die before it comes.
      this.#later(() => this.#end(attempt, answer.result))
    }, answer.delayMs)
  }

  #cut(recipientId: number): void {
    const attempt = this.#attempts.get(recipientId)
    if (!attempt) return
    if (attempt.state === 'waiting') this.#end(attempt, { kind: 'dropped' })
    else this.#end(attempt, attempt.state === 'begun' ? LOST_IN_MESSAGE : SILENCE)
  }

  #end(attempt: Attempt, result: AttemptResult): void {
    const { recipientId } = attempt.job
    if (this.#attempts.get(recipientId) !== attempt || this.#hasEnded) return
    this.#forget(attempt)
    const session = SESSION_KINDS.has(result.kind)
      ? { host: attempt.job.route.hosts[0]?.host ?? '', address: '127.0.0.1', localAddress: '127.0.0.1', tls: 'none' }
      : undefined
    this.#send(attempt.worker, { type: 'outcome', recipientId, result, session })
    this.#serve(attempt.key)
  }

  #forget(attempt: Attempt): void {
    this.#attempts.delete(attempt.job.recipientId)
    if (attempt.state === 'waiting') this.#leaveWaiting(attempt)
    else this.#count(attempt.key, -1)
  }

  #leaveWaiting(attempt: Attempt): void {
    const left = (this.#waiting.get(attempt.key) ?? []).filter((other) => other !== attempt)
    if (left.length > 0) this.#waiting.set(attempt.key, left)
    else this.#waiting.delete(attempt.key)
  }

  #count(key: string, change: number): void {
    const open = (this.#running.get(key) ?? 0) + change
    this.#running.set(key, open)
    this.#receivers.onConnections?.(key, open)
  }

  #send(worker: number, message: FromWorker): void {
    this.activity++
    this.#outbox.push({ worker, message })
    if (this.#outbox.length > 1) return
    setImmediate(() => {
      const messages = this.#outbox.map(({ message }) => message)
      this.#outbox = []
      if (!this.#hasEnded) this.#options.onMessages(messages)
    })
  }

  /** In the next tick, or after this time of the service's clock. */
  #later(run: () => void, delayMs = 0): void {
    this.activity++
    const guarded = () => {
      if (!this.#hasEnded) run()
    }
    if (delayMs > 0) this.#options.clock.after(delayMs, guarded)
    else setImmediate(guarded)
  }

  get isDraining(): boolean {
    return this.#isDraining
  }
}

const SESSION_KINDS: ReadonlySet<AttemptResult['kind']> = new Set(['accepted', 'refused', 'lost', 'uncertain'])

const SILENCE: AttemptResult = { kind: 'lost', phase: 'mail', failure: { kind: 'timeout', message: 'No reply' } }
const LOST_IN_MESSAGE: AttemptResult = { kind: 'uncertain', failure: { kind: 'timeout', message: 'No reply' } }

/** A reply of one line, such as `451 4.7.1 Greylisted`. */
export function replyOf(text: string): SmtpReply {
  const enhanced = /^\d{3} ([245]\.\d+\.\d+) /.exec(text)?.[1]
  return { code: Number(text.slice(0, 3)), ...(enhanced && { enhanced }), lines: [text.slice(4)], text }
}

export const accepted = (delayMs?: number): Answer => ({
  kind: 'after',
  isReceived: true,
  result: { kind: 'accepted', reply: replyOf('250 2.0.0 Ok') },
  ...(delayMs !== undefined && { delayMs }),
})

/** A rejection; in phase `body` it is the reply to the message. */
export const refused = (text: string, phase: 'mail' | 'rcpt' | 'data' | 'body' = 'rcpt', delayMs?: number): Answer => ({
  ...(phase === 'body' ? { kind: 'after', isReceived: false } : { kind: 'before' }),
  result: { kind: 'refused', phase, reply: replyOf(text) },
  ...(delayMs !== undefined && { delayMs }),
})
