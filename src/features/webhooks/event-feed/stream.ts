/**
 * @module Serves the feed as server-sent events: first the stored events after the given one, then new ones, without a
 * gap or duplicate in between. Sends only durable events. A stream holds nothing but its position, so a slow client
 * lags behind in the database, not in memory.
 */
import { listenForAccessChanges } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { readLastSeq } from '#features/core/events/record.ts'
import { AppError, tooManyRequests } from '#platform/errors.ts'
import * as eventStream from '#platform/http/event-stream.ts'
import { createFairYield } from '#platform/time/clock.ts'
import { KiB, type Millis, seconds } from '#platform/units.ts'
import { MAX_EXAMINED, readFeed, readFeedRange, type TypeMask } from './feed.ts'

export const MAX_STREAMS_PER_ACCOUNT = 10
export const MAX_STREAMS = 1000

/** Less than the minute after which proxies and routers close a silent connection. */
export const HEARTBEAT_MS = seconds(15)
const RECONNECT_MS = seconds(3)
/** The Retry-After of a request that finds no free slot. */
const RETRY_AFTER_SECONDS = 30
const EVENTS_PER_PIECE = 100
/** Limit for the data of the events in one piece; a stream whose client never reads holds one piece. */
const CHARACTERS_PER_PIECE = 32 * KiB

/** Where a stream begins, and what it has. */
export interface StreamStart {
  readonly after: number
  readonly types: TypeMask
  readonly sendsStart?: boolean
}

export type FeedStreams = ReturnType<typeof createFeedStreams>

interface Listener {
  /** Called when all events up to here are durable. */
  onRecorded(lastSeq: number): void
  readonly actor: Actor
  end(): void
}

/** @param ending aborted when the service stops: all streams end, and no new one is opened */
export function createFeedStreams(app: App, ending: AbortSignal) {
  const byAccount = new Map<number, Set<Listener>>()
  const awaitTurn = createFairYield()
  let size = 0
  let stopListening: (() => void)[] = []

  const add = (accountId: number, listener: Listener): void => {
    const listeners = byAccount.get(accountId) ?? new Set()
    byAccount.set(accountId, listeners.add(listener))
    size++
    if (stopListening.length > 0) return
    stopListening = [
      app.eventsRecorded.listen(({ accountId: recorded, lastSeq }) => {
        for (const open of byAccount.get(recorded) ?? []) open.onRecorded(lastSeq)
      }),
      listenForAccessChanges(app, (changed) => {
        for (const open of [...(byAccount.get(changed) ?? [])]) if (open.actor.mayStillAct?.() === false) open.end()
      }),
    ]
  }
  const remove = (accountId: number, listener: Listener): void => {
    const listeners = byAccount.get(accountId)
    if (!listeners?.delete(listener)) return
    if (listeners.size === 0) byAccount.delete(accountId)
    if (--size > 0) return
    for (const stop of stopListening) stop()
    stopListening = []
  }
  ending.addEventListener('abort', () => {
    for (const listeners of [...byAccount.values()]) for (const listener of [...listeners]) listener.end()
  })

  return {
    /**
     * Responds to `request` with a stream of the events after event `after`. `sendsStart`: the stream begins with that
     * position, so that a client which got no event yet continues from there after a reconnect. Throws 429 when the account or the service
     * has its maximum of streams, 503 when the service is stopping.
     */
    open(request: Request, actor: Actor, from: StreamStart): Response {
      if (ending.aborted)
        throw new AppError(503, 'stopping', 'The service is restarting; connect again in a moment.', {
          retryAfterSeconds: 1,
        })
      if ((byAccount.get(actor.accountId)?.size ?? 0) >= MAX_STREAMS_PER_ACCOUNT)
        throw tooManyRequests(
          'too_many_streams',
          `This account has ${MAX_STREAMS_PER_ACCOUNT} event streams open, the maximum; close one, or request JSON.`,
          RETRY_AFTER_SECONDS,
        )
      if (size >= MAX_STREAMS)
        throw tooManyRequests(
          'too_many_streams',
          'The service has its maximum of event streams open; request JSON, or connect again later.',
          RETRY_AFTER_SECONDS,
        )
      const source = new FeedSource(app, actor, from, awaitTurn)
      const stream: eventStream.EventStream = eventStream.openEventStream({
        request,
        clock: app.clock,
        next: () => source.next(),
        onEnded() {
          source.stop()
          remove(actor.accountId, listener)
        },
        onError: (error) => app.log.error({ err: error, account: actor.accountUuid }, 'an event stream failed'),
      })
      const listener: Listener = { actor, onRecorded: (lastSeq) => source.onRecorded(lastSeq), end: () => stream.end() }
      add(actor.accountId, listener)
      return stream.response
    },
    /** Number of open streams of all accounts. */
    get size(): number {
      return size
    },
  }
}

class FeedSource {
  readonly #app: App
  readonly #actor: Actor
  readonly #from: StreamStart
  /** Resolves when this stream may produce a piece. */
  readonly #awaitTurn: () => Promise<void>
  /** All events up to here were examined. */
  #position: number
  /** The id that the client would send if it reconnected now. */
  #sentId: number
  /** All events up to this number are durable. Undefined until the first piece. */
  #durableSeq: number | undefined
  #recordedSeq = 0
  #wake: (() => void) | undefined
  #isStopped = false

  constructor(app: App, actor: Actor, from: StreamStart, awaitTurn: () => Promise<void>) {
    this.#app = app
    this.#actor = actor
    this.#from = from
    this.#awaitTurn = awaitTurn
    this.#position = from.after
    this.#sentId = from.after
  }

  onRecorded(lastSeq: number): void {
    this.#recordedSeq = lastSeq
    if (this.#durableSeq !== undefined) this.#durableSeq = lastSeq
    this.#wake?.()
  }

  /** Ends a pending `next`, whose piece is no longer needed. */
  stop(): void {
    this.#isStopped = true
    this.#wake?.()
  }

  async next(): Promise<string | undefined> {
    const { clock, db } = this.#app
    if (this.#durableSeq === undefined) return this.#start()
    // Counted from the previous piece: events of other types do not delay the heartbeat.
    const heartbeatAtMs = clock.monotonicMs() + HEARTBEAT_MS
    for (;;) {
      // A stream that lags far behind catches up in pieces; other streams take their turns in between.
      await this.#awaitTurn()
      if (this.#isStopped) return undefined
      // Access is checked for every piece, because a session can expire without a signal.
      if (this.#actor.mayStillAct?.() === false) return undefined
      // Events were deleted before they could be sent: the stream ends, and the client gets an error when it
      // reconnects.
      if (this.#position < readFeedRange(db, this.#actor.accountId).firstSeq - 1) return undefined
      const piece = this.#position < this.#durableSeq ? this.#readPiece(this.#durableSeq) : undefined
      if (piece !== undefined) return piece
      if (this.#position < this.#durableSeq) continue
      if (clock.monotonicMs() >= heartbeatAtMs)
        return `${this.#position > this.#sentId ? this.#formatPosition() : ''}${eventStream.formatComment('heartbeat')}`
      await this.#waitForEvents(heartbeatAtMs)
    }
  }

  async #start(): Promise<string> {
    // Events recorded before the barrier are durable after it; the signal reports later ones.
    const lastSeq = readLastSeq(this.#app.db, this.#actor.accountId)
    await this.#app.commit.barrier()
    this.#durableSeq = Math.max(lastSeq, this.#recordedSeq)
    return `${eventStream.formatRetry(RECONNECT_MS)}${this.#from.sendsStart ? eventStream.formatId(this.#position) : ''}`
  }

  #readPiece(upTo: number): string | undefined {
    const { events, after } = readFeed(this.#app, this.#actor, {
      after: this.#position,
      upTo,
      types: this.#from.types,
      limit: EVENTS_PER_PIECE,
      characters: CHARACTERS_PER_PIECE,
    })
    this.#position = after
    const newest = events.at(-1)?.seq
    if (newest !== undefined) {
      this.#sentId = newest
      return events.map((event) => eventStream.formatEvent(event.seq, event.type, JSON.stringify(event))).join('')
    }
    // Sends the position after a long stretch of events of other types, so that a reconnect does not scan them again.
    return this.#position - this.#sentId >= MAX_EXAMINED ? this.#formatPosition() : undefined
  }

  #formatPosition(): string {
    this.#sentId = this.#position
    return eventStream.formatId(this.#position)
  }

  /** Resolves when an event or `stop` wakes this stream, at the latest at `untilMs` of the monotonic clock. */
  #waitForEvents(untilMs: Millis): Promise<void> {
    const { clock } = this.#app
    return new Promise((resolve) => {
      const timer = clock.after(untilMs - clock.monotonicMs(), () => this.#wake?.())
      this.#wake = () => {
        this.#wake = undefined
        timer.cancel()
        resolve()
      }
    })
  }
}
