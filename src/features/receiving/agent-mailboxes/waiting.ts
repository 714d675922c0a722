/**
 * @module The consumers that wait for the next message of a mailbox: first come, first served. They wait in memory,
 * woken by what happened to their mailbox and by the end of its nearest lease; the database is not asked meanwhile.
 * Clients that go away, or lose their access, get no message.
 */

import { listenForAccessChanges } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { Millis, Timer } from '#platform/clock.ts'
import { AppError, tooMany, unauthorized } from '#platform/errors.ts'
import { noSuch } from '#platform/http/schemas.ts'
import { Counts } from '#platform/queue/counts.ts'
import { hasWaiting, type Lease, leaseOldest, nearestExpiry, release, takeBackExpired } from './leases.ts'
import { type Mailbox, mailboxById } from './mailboxes.ts'

export const MOST_WAITING_AN_ACCOUNT = 2000
export const MOST_WAITING = 10_000

/** When a place may be free again, for who found none. */
const RETRY_AFTER_SECONDS = 30
/** Leases given in one transaction: a few milliseconds. */
const MOST_AT_ONCE = 100

interface Waiter {
  readonly actor: Actor
  /** In the room's queue. */
  isWaiting: boolean
  /** The client is not there any more. */
  isGone: boolean
  /** Takes it out of the queue; a lease or an error is on its way. */
  leave(): void
  resolve(lease: Lease): void
  reject(error: unknown): void
}

/** Those who wait for one mailbox, in the order in which they came. */
interface Room {
  readonly mailboxId: number
  readonly waiters: Set<Waiter>
  serving: Promise<void> | undefined
  /** Something happened while it was served. */
  isStale: boolean
  /** For the end of the nearest lease. */
  timer: Timer | undefined
}

/** Those who wait, by mailbox. Listens to the service while anybody waits. */
export class WaitingRooms {
  readonly #app: App
  readonly #ending: AbortSignal
  readonly #rooms = new Map<number, Room>()
  /** Those who wait, by account. */
  readonly #waiting = new Counts()
  #stopListening: (() => void)[] = []

  /** @param ending aborted when the service ends: nobody waits any more */
  constructor(app: App, ending: AbortSignal) {
    this.#app = app
    this.#ending = ending
    ending.addEventListener('abort', () => {
      for (const room of [...this.#rooms.values()]) this.#refuseAll(room, stopping)
    })
  }

  #roomOf(mailboxId: number): Room {
    const found = this.#rooms.get(mailboxId)
    if (found) return found
    const room: Room = { mailboxId, waiters: new Set(), serving: undefined, isStale: false, timer: undefined }
    this.#rooms.set(mailboxId, room)
    if (this.#stopListening.length === 0)
      this.#stopListening = [
        this.#app.mailboxChanged.listen((changed) => {
          const waiting = this.#rooms.get(changed.mailboxId)
          if (waiting) void this.#serve(waiting)
        }),
        listenForAccessChanges(this.#app, (accountId) => this.#refuseRevoked(accountId)),
      ]
    return room
  }

  #enter(room: Room, waiter: Waiter): void {
    waiter.isWaiting = true
    room.waiters.add(waiter)
    const { accountId } = waiter.actor
    this.#waiting.add(accountId, 1)
  }

  #leave(room: Room, waiter: Waiter): void {
    if (!waiter.isWaiting) return
    waiter.isWaiting = false
    room.waiters.delete(waiter)
    const { accountId } = waiter.actor
    this.#waiting.add(accountId, -1)
    this.#closeWhenEmpty(room)
  }

  #closeWhenEmpty(room: Room): void {
    if (room.waiters.size > 0 || room.serving) return
    room.timer?.cancel()
    this.#rooms.delete(room.mailboxId)
    if (this.#rooms.size > 0) return
    for (const stop of this.#stopListening) stop()
    this.#stopListening = []
  }

  #refuseIfRevoked(waiter: Waiter): boolean {
    if (waiter.actor.mayStillAct?.() !== false) return false
    waiter.leave()
    waiter.reject(unauthorized())
    return true
  }

  #refuseRevoked(accountId: number): void {
    if (this.#waiting.of(accountId) === 0) return
    for (const room of [...this.#rooms.values()])
      for (const waiter of [...room.waiters]) if (waiter.actor.accountId === accountId) this.#refuseIfRevoked(waiter)
  }

  #refuseAll(room: Room, error: () => unknown): void {
    for (const waiter of [...room.waiters]) {
      waiter.leave()
      waiter.reject(error())
    }
  }

  /** Serves a room until nobody waits or nothing is left; once at a time, so that many changes are one look at the database. */
  #serve(room: Room): Promise<void> {
    room.isStale = true
    room.serving ??= this.#serveUntilQuiet(room).finally(() => {
      room.serving = undefined
      // Something happened after its last look, before this ran.
      if (room.isStale) return this.#serve(room)
      this.#wakeAtExpiry(room)
      this.#closeWhenEmpty(room)
      return undefined
    })
    return room.serving
  }

  async #serveUntilQuiet(room: Room): Promise<void> {
    try {
      while (room.isStale) {
        room.isStale = false
        if (room.waiters.size > 0 && !mailboxById(this.#app.db, room.mailboxId)) this.#refuseAll(room, noMailbox)
        while (room.waiters.size > 0 && hasWaiting(this.#app.db, room.mailboxId, this.#app.clock.now()))
          await this.#serveSome(room)
      }
    } catch (error) {
      this.#refuseAll(room, () => error)
    }
  }

  async #serveSome(room: Room): Promise<void> {
    const served: { readonly waiter: Waiter; readonly lease: Lease }[] = []
    try {
      await this.#app.commit.writeFromReserve((tx) => {
        const now = this.#app.clock.now()
        takeBackExpired(tx, room.mailboxId, now)
        for (const waiter of [...room.waiters].slice(0, MOST_AT_ONCE)) {
          if (this.#refuseIfRevoked(waiter)) continue
          // From here on its time does not run out: the message is its own once this is on disk.
          const lease = leaseOldest(tx, room.mailboxId, now)
          if (!lease) break
          waiter.leave()
          served.push({ waiter, lease })
        }
      })
    } catch (error) {
      for (const { waiter } of served) waiter.reject(error)
      throw error
    }
    const lost = served.filter(({ waiter }) => waiter.isGone)
    for (const { waiter, lease } of served) if (!waiter.isGone) waiter.resolve(lease)
    // Their clients went away while it was written: the next ones get these messages.
    if (lost.length > 0)
      await this.#app.commit.writeFromReserve((tx) => {
        for (const { lease } of lost) release(tx, lease)
      })
  }

  #wakeAtExpiry(room: Room): void {
    room.timer?.cancel()
    room.timer = undefined
    const at: Millis | undefined =
      room.waiters.size > 0 ? nearestExpiry(this.#app.db, room.mailboxId, this.#app.clock.now()) : undefined
    if (at !== undefined)
      room.timer = this.#app.clock.after(Math.max(at - this.#app.clock.now(), 1), () => void this.#serve(room))
  }

  /**
   * Leases the next message of a mailbox, waiting for it up to `waitMs`; 0 does not wait. Rejects with 408 when there is none in that time, 404
   * when the mailbox is deleted meanwhile, 401 when the key is or its account is switched off, 429 when too many wait, 503 when the service ends.
   * @param signal aborted when the client goes away
   */
  async next(actor: Actor, mailbox: Mailbox, waitMs: number, signal: AbortSignal): Promise<Lease> {
    if (this.#ending.aborted) throw stopping()
    if (signal.aborted) throw clientGone()
    if (this.#waiting.of(actor.accountId) >= MOST_WAITING_AN_ACCOUNT)
      throw tooMany(
        'too_many_waiting',
        `${MOST_WAITING_AN_ACCOUNT} requests of this account wait for a message, which is the most; let fewer wait.`,
        RETRY_AFTER_SECONDS,
      )
    if (this.#waiting.total >= MOST_WAITING)
      throw tooMany(
        'too_many_waiting',
        'As many requests wait for messages as the service can have; try again later.',
        RETRY_AFTER_SECONDS,
      )
    const room = this.#roomOf(mailbox.id)
    const { promise, resolve, reject } = Promise.withResolvers<Lease>()
    let timer: Timer | undefined
    const waiter: Waiter = {
      actor,
      isWaiting: false,
      isGone: false,
      leave: () => {
        timer?.cancel()
        this.#leave(room, waiter)
      },
      resolve,
      reject,
    }
    const giveUp = () => {
      if (!waiter.isWaiting) return
      waiter.leave()
      reject(nothingCame())
    }
    const goAway = () => {
      waiter.isGone = true
      waiter.leave()
      reject(clientGone())
    }
    this.#enter(room, waiter)
    signal.addEventListener('abort', goAway, { once: true })
    if (waitMs > 0) timer = this.#app.clock.after(waitMs, giveUp)
    const served = this.#serve(room)
    if (waitMs <= 0) void served.then(giveUp)
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', goAway)
    }
  }

  /** Those who wait, of all accounts. */
  get size(): number {
    return this.#waiting.total
  }

  /** Mailboxes that somebody waits at. */
  get mailboxes(): number {
    return this.#rooms.size
  }
}

/** The 408 of a wait that gave nothing. */
export const nothingCame = (): AppError => new AppError(408, 'no_message', 'No message came in this time; ask again.')

/** Nobody reads this answer. */
const clientGone = (): AppError => new AppError(400, 'request_interrupted', 'The client went away while it waited.')

const noMailbox = (): AppError => noSuch('mailbox_not_found', 'mailbox')

const stopping = (): AppError =>
  new AppError(503, 'stopping', 'The service is about to restart; ask again in a moment.', { retryAfterSeconds: 1 })
