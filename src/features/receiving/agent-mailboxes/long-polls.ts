/**
 * @module Long polls for the next message of a mailbox: first come, first served. Requests wait in memory, without
 * polling the database. A change of their mailbox wakes them, and so does the end of its lease that expires first.
 * Clients that disconnect, or lose their access, get no message.
 */
import { listenForAccessChanges } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, tooManyRequests, unauthorized } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { Counts } from '#platform/queue/counts.ts'
import type { Timer } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import * as leases from './leases.ts'
import { findMailboxById, type Mailbox } from './mailboxes.ts'

export const MAX_WAITING_PER_ACCOUNT = 2000
export const MAX_WAITING = 10_000

/** Retry delay for a request that found no capacity. */
const RETRY_AFTER_SECONDS = 30
/** Leases granted in one transaction. A full batch takes a few milliseconds. */
const MAX_LEASES_PER_BATCH = 100

interface Waiter {
  readonly actor: Actor
  isDisconnected: boolean
  resolve(lease: leases.Lease): void
  reject(error: unknown): void
}

/** The requests waiting for one mailbox, in order of arrival. */
interface MailboxQueue {
  readonly mailboxId: number
  readonly waiters: Set<Waiter>
  serving: Promise<void> | undefined
  /** The mailbox changed while its requests were being served. */
  isStale: boolean
  /** Fires when the first lease of the mailbox ends. */
  timer: Timer | undefined
}

/** The waiting requests, by mailbox. */
export class LongPolls {
  readonly #app: App
  readonly #stopSignal: AbortSignal
  readonly #queues = new Map<number, MailboxQueue>()
  /** Number of waiting requests, by account. */
  readonly #waiting = new Counts()

  /** @param stopSignal aborted when the service stops: all requests end */
  constructor(app: App, stopSignal: AbortSignal) {
    this.#app = app
    this.#stopSignal = stopSignal
    const stopListening = [
      app.mailboxChanged.listen(({ mailboxId }) => {
        const waiting = this.#queues.get(mailboxId)
        if (waiting) void this.#serve(waiting)
      }),
      listenForAccessChanges(app, (accountId) => this.#rejectRevoked(accountId)),
    ]
    stopSignal.addEventListener('abort', () => {
      for (const queue of this.#queues.values()) this.#rejectAll(queue, createStoppingError)
      for (const stop of stopListening) stop()
    })
  }

  #getQueue(mailboxId: number): MailboxQueue {
    return this.#queues.getOrInsertComputed(mailboxId, () => ({
      mailboxId,
      waiters: new Set(),
      serving: undefined,
      isStale: false,
      timer: undefined,
    }))
  }

  /** Removes a request from its queue, for a lease or an error that follows. */
  #leave(queue: MailboxQueue, waiter: Waiter): void {
    if (!queue.waiters.delete(waiter)) return
    this.#waiting.add(waiter.actor.accountId, -1)
    this.#closeWhenEmpty(queue)
  }

  #closeWhenEmpty(queue: MailboxQueue): void {
    if (queue.waiters.size > 0 || queue.serving) return
    queue.timer?.cancel()
    this.#queues.delete(queue.mailboxId)
  }

  #reject(queue: MailboxQueue, waiter: Waiter, error: unknown): void {
    this.#leave(queue, waiter)
    waiter.reject(error)
  }

  #rejectIfRevoked(queue: MailboxQueue, waiter: Waiter): boolean {
    if (waiter.actor.mayStillAct?.() !== false) return false
    this.#reject(queue, waiter, unauthorized())
    return true
  }

  #rejectRevoked(accountId: number): void {
    if (this.#waiting.of(accountId) === 0) return
    for (const queue of this.#queues.values())
      for (const waiter of queue.waiters) if (waiter.actor.accountId === accountId) this.#rejectIfRevoked(queue, waiter)
  }

  #rejectAll(queue: MailboxQueue, error: () => unknown): void {
    for (const waiter of queue.waiters) this.#reject(queue, waiter, error())
  }

  /** Serves a mailbox until no request waits or no message is left, one run at a time. */
  #serve(queue: MailboxQueue): Promise<void> {
    queue.isStale = true
    queue.serving ??= this.#serveUntilQuiet(queue).finally(() => {
      queue.serving = undefined
      // The mailbox changed after the last query, before this callback ran.
      if (queue.isStale) return this.#serve(queue)
      this.#wakeAtExpiry(queue)
      this.#closeWhenEmpty(queue)
      return undefined
    })
    return queue.serving
  }

  async #serveUntilQuiet(queue: MailboxQueue): Promise<void> {
    try {
      while (queue.isStale) {
        queue.isStale = false
        if (queue.waiters.size > 0 && !findMailboxById(this.#app.db, queue.mailboxId))
          this.#rejectAll(queue, createNoMailboxError)
        while (
          queue.waiters.size > 0 &&
          leases.hasAvailableMessage(this.#app.db, queue.mailboxId, this.#app.clock.now())
        )
          await this.#serveBatch(queue)
      }
    } catch (error) {
      this.#rejectAll(queue, () => error)
    }
  }

  async #serveBatch(queue: MailboxQueue): Promise<void> {
    const served: { readonly waiter: Waiter; readonly lease: leases.Lease }[] = []
    try {
      await this.#app.commit.writeFromReserve((tx) => {
        const now = this.#app.clock.now()
        leases.releaseExpired(tx, queue.mailboxId, now)
        for (const waiter of [...queue.waiters].slice(0, MAX_LEASES_PER_BATCH)) {
          if (this.#rejectIfRevoked(queue, waiter)) continue
          // From here on the request cannot time out: it owns the message once the lease is on disk.
          const lease = leases.leaseOldestMessage(tx, queue.mailboxId, now)
          if (!lease) break
          this.#leave(queue, waiter)
          served.push({ waiter, lease })
        }
      })
    } catch (error) {
      for (const { waiter } of served) waiter.reject(error)
      throw error
    }
    const undelivered = served.filter(({ waiter }) => waiter.isDisconnected)
    for (const { waiter, lease } of served) if (!waiter.isDisconnected) waiter.resolve(lease)
    // The clients of these requests disconnected during the write: the next requests get their messages.
    if (undelivered.length > 0)
      await this.#app.commit.writeFromReserve((tx) => {
        for (const { lease } of undelivered) leases.releaseLease(tx, lease)
      })
  }

  #wakeAtExpiry(queue: MailboxQueue): void {
    queue.timer?.cancel()
    queue.timer = undefined
    const at: Millis | undefined =
      queue.waiters.size > 0
        ? leases.findNearestExpiry(this.#app.db, queue.mailboxId, this.#app.clock.now())
        : undefined
    if (at !== undefined)
      queue.timer = this.#app.clock.after(Math.max(at - this.#app.clock.now(), 1), () => void this.#serve(queue))
  }

  /**
   * Leases the next message of a mailbox, waiting up to `waitMs`; 0 does not wait. Rejects with 408 when none arrives
   * in that time, 404 when the mailbox is deleted, 401 when the key or its account is disabled, 429 when too many
   * requests wait, 503 when the service stops.
   * @param signal aborted when the client disconnects
   */
  async next(actor: Actor, mailbox: Mailbox, waitMs: number, signal: AbortSignal): Promise<leases.Lease> {
    if (this.#stopSignal.aborted) throw createStoppingError()
    if (signal.aborted) throw createClientGoneError()
    if (this.#waiting.of(actor.accountId) >= MAX_WAITING_PER_ACCOUNT)
      throw tooManyRequests(
        'too_many_waiting',
        `This account has reached its limit of ${MAX_WAITING_PER_ACCOUNT} long polls; use fewer.`,
        RETRY_AFTER_SECONDS,
      )
    if (this.#waiting.total >= MAX_WAITING)
      throw tooManyRequests('too_many_waiting', 'Too many long polls; try again later.', RETRY_AFTER_SECONDS)
    const queue = this.#getQueue(mailbox.id)
    const { promise, resolve, reject } = Promise.withResolvers<leases.Lease>()
    const waiter: Waiter = { actor, isDisconnected: false, resolve, reject }
    const onTimeout = () => {
      if (queue.waiters.has(waiter)) this.#reject(queue, waiter, createNoMessageError())
    }
    const onDisconnected = () => {
      waiter.isDisconnected = true
      this.#reject(queue, waiter, createClientGoneError())
    }
    queue.waiters.add(waiter)
    this.#waiting.add(actor.accountId, 1)
    signal.addEventListener('abort', onDisconnected, { once: true })
    const timer = waitMs > 0 ? this.#app.clock.after(waitMs, onTimeout) : undefined
    const served = this.#serve(queue)
    if (waitMs <= 0) void served.then(onTimeout)
    try {
      return await promise
    } finally {
      timer?.cancel()
      signal.removeEventListener('abort', onDisconnected)
    }
  }

  get size(): number {
    return this.#waiting.total
  }

  get mailboxCount(): number {
    return this.#queues.size
  }
}

/** The 408 of a request without a message. */
export const createNoMessageError = (): AppError =>
  new AppError(408, 'no_message', 'No message arrived in this time; ask again.')

/** No client reads this response. */
const createClientGoneError = (): AppError =>
  new AppError(400, 'request_interrupted', 'The client disconnected while waiting.')

const createNoMailboxError = (): AppError => notFoundById('mailbox_not_found', 'mailbox')

const createStoppingError = (): AppError =>
  new AppError(503, 'stopping', 'The service is restarting; ask again in a moment.', { retryAfterSeconds: 1 })
