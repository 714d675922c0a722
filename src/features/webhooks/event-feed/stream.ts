/**
 * @module The feed as server-sent events: first what is stored after the given event, then what happens, without a gap or a duplicate at the
 * seam. Tells only what is on disk. A stream remembers nothing but how far it is, so a client that reads slowly is behind in the database, not
 * in memory.
 */
import { listenForAccessChanges } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { readLastSeq } from '#features/core/events/record.ts'
import { createFairYield, type Millis } from '#platform/clock.ts'
import { AppError, tooManyRequests } from '#platform/errors.ts'
import {
  type EventStream,
  formatComment,
  formatEvent,
  formatId,
  formatRetry,
  openEventStream,
} from '#platform/http/event-stream.ts'
import { KiB, seconds } from '#platform/units.ts'
import { MAX_EXAMINED, readFeed, readFeedRange, type TypeMask } from './feed.ts'

export const MAX_STREAMS_PER_ACCOUNT = 10
export const MAX_STREAMS = 1000

/** Below the minute after which proxies and routers give up a connection that is silent. */
export const HEARTBEAT_MS = seconds(15)
const RECONNECT_MS = seconds(3)
/** When a place may be free again, for who found none. */
const RETRY_AFTER_SECONDS = 30
const EVENTS_PER_PIECE = 100
/** Of what the events of a piece carry: of a client that never reads, one piece is held. */
const CHARACTERS_PER_PIECE = 32 * KiB

export interface FeedStreams {
  /**
   * Answers `request` with a stream of what comes after event `after`. Throws 429 when the account or the service has its most streams, 503 when
   * the service ends.
   */
  open(request: Request, actor: Actor, from: { after: number; types: TypeMask }): Response
  /** Open ones, of all accounts. */
  readonly size: number
}

/** A stream as the registry sees it. */
interface Listener {
  /** Events up to here are on disk. */
  onRecorded(lastSeq: number): void
  readonly actor: Actor
  end(): void
}

/** @param ending aborted when the service ends: all streams end, and none is opened any more */
export function createFeedStreams(app: App, ending: AbortSignal): FeedStreams {
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
    open(request, actor, from) {
      if (ending.aborted)
        throw new AppError(503, 'stopping', 'The service is about to restart; connect again in a moment.', {
          retryAfterSeconds: 1,
        })
      if ((byAccount.get(actor.accountId)?.size ?? 0) >= MAX_STREAMS_PER_ACCOUNT)
        throw tooManyRequests(
          'too_many_streams',
          `This account has ${MAX_STREAMS_PER_ACCOUNT} event streams open, which is the most; close one, or ask for JSON.`,
          RETRY_AFTER_SECONDS,
        )
      if (size >= MAX_STREAMS)
        throw tooManyRequests(
          'too_many_streams',
          'The service has as many event streams open as it can; ask for JSON, or connect again later.',
          RETRY_AFTER_SECONDS,
        )
      const source = new FeedSource(app, actor, { ...from, awaitTurn: awaitTurn })
      const stream: EventStream = openEventStream({
        request,
        clock: app.clock,
        next: () => source.next(),
        onEnded() {
          source.stop()
          remove(actor.accountId, listener)
        },
        onError: (error) => app.log.error({ err: error, accountId: actor.accountId }, 'an event stream failed'),
      })
      const listener: Listener = { actor, onRecorded: (lastSeq) => source.onRecorded(lastSeq), end: () => stream.end() }
      add(actor.accountId, listener)
      return stream.response
    },
    get size() {
      return size
    },
  }
}

/** The pieces of one stream. */
class FeedSource {
  readonly #app: App
  readonly #actor: Actor
  readonly #types: TypeMask
  readonly #awaitTurn: () => Promise<void>
  /** Everything up to here was looked at. */
  #position: number
  /** The id that the client would come back with. */
  #sentId: number
  /** Undefined until the first piece. */
  #durableSeq: number | undefined
  #recordedSeq = 0
  #wake: (() => void) | undefined
  #isStopped = false

  /** @param from.turn resolves when it is this stream's turn to make a piece */
  constructor(app: App, actor: Actor, from: { after: number; types: TypeMask; awaitTurn: () => Promise<void> }) {
    this.#app = app
    this.#actor = actor
    this.#types = from.types
    this.#awaitTurn = from.awaitTurn
    this.#position = from.after
    this.#sentId = from.after
  }

  onRecorded(lastSeq: number): void {
    this.#recordedSeq = lastSeq
    if (this.#durableSeq !== undefined) this.#durableSeq = lastSeq
    this.#wake?.()
  }

  /** Ends `next`, whose piece nobody wants any more. */
  stop(): void {
    this.#isStopped = true
    this.#wake?.()
  }

  async next(): Promise<string | undefined> {
    const { clock, db } = this.#app
    if (this.#durableSeq === undefined) return this.#start()
    // From the piece before: events that are not wanted put it off no further.
    const heartbeatAtMs = clock.monotonicMs() + HEARTBEAT_MS
    for (;;) {
      // A long way to catch up is gone in pieces, between which others have their turn.
      await this.#awaitTurn()
      if (this.#isStopped) return undefined
      // Each time: a session can also expire, which nobody announces.
      if (this.#actor.mayStillAct?.() === false) return undefined
      // What it has not told was removed meanwhile: the client comes back and is told so.
      if (this.#position < readFeedRange(db, this.#actor.accountId).firstSeq - 1) return undefined
      const piece = this.#position < this.#durableSeq ? this.#readPiece(this.#durableSeq) : undefined
      if (piece !== undefined) return piece
      if (this.#position < this.#durableSeq) continue
      if (clock.monotonicMs() >= heartbeatAtMs)
        return `${this.#position > this.#sentId ? this.#formatPosition() : ''}${formatComment('heartbeat')}`
      await this.#waitForEvents(heartbeatAtMs)
    }
  }

  async #start(): Promise<string> {
    // What was recorded before the barrier is on disk after it; of what comes later, the signal tells.
    const lastSeq = readLastSeq(this.#app.db, this.#actor.accountId)
    await this.#app.commit.barrier()
    this.#durableSeq = Math.max(lastSeq, this.#recordedSeq)
    return formatRetry(RECONNECT_MS)
  }

  #readPiece(upTo: number): string | undefined {
    const { events, nextAfter } = readFeed(this.#app, this.#actor, {
      after: this.#position,
      upTo,
      types: this.#types,
      limit: EVENTS_PER_PIECE,
      characters: CHARACTERS_PER_PIECE,
    })
    this.#position = nextAfter
    const newest = events.at(-1)
    if (newest) {
      this.#sentId = newest.seq
      return events.map((event) => formatEvent(event.seq, event.type, JSON.stringify(event))).join('')
    }
    // Nothing of the wanted types in a long stretch: the client need not go through it again.
    return this.#position - this.#sentId >= MAX_EXAMINED ? this.#formatPosition() : undefined
  }

  #formatPosition(): string {
    this.#sentId = this.#position
    return formatId(this.#position)
  }

  /** Resolves when something happened, or at a time of the monotonic clock. */
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
