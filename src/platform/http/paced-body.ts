/**
 * @module The body of a response that is too long to hold in memory: each piece is made when the client has read the one
 * before, apart from kernel buffers, so a client that never reads costs the memory of one piece. A response that fails
 * midway is cut off, so that no client takes a part for the whole.
 */
import type { MemoryBudget, Reservation } from '#platform/process/memory-budget.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { KiB, seconds } from '../units.ts'
import { serverBusy } from './body.ts'
import { cutConnection, isRevoked, liftTimeLimit, restoreTimeLimit } from './request-context.ts'

/** A client that reads nothing for this long is treated as disconnected. */
export const CLIENT_STALL_MS = seconds(60)

export interface PacedSource {
  readonly request: Request
  readonly clock: Pick<Clock, 'after'>
  /** Returns the next piece; undefined: there is none. Must be quick, or let other work run. */
  next(): Promise<Uint8Array | undefined>
  /**
   * Called once, when the response has ended for any reason.
   * @param isWhole whether the client has read everything
   */
  onEnded(isWhole: boolean): void
  /** Called with an error that `next` threw; the connection is then cut. */
  onFailed(error: unknown): void
}

/** The connection of the request has no time limit while the body lasts. */
export class PacedBody {
  readonly stream: ReadableStream<Uint8Array>
  readonly #source: PacedSource
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #stallTimer: Timer
  #isPullPending = false
  #hasEnded = false

  constructor(source: PacedSource) {
    this.#source = source
    // From the start, so that a client that disconnects before the first piece is noticed.
    this.#stallTimer = this.#waitForClient()
    liftTimeLimit(source.request)
    this.stream = new ReadableStream(
      {
        start: (controller) => {
          this.#controller = controller
        },
        pull: (controller) => this.#pull(controller),
        cancel: () => this.#finish(false),
      },
      // Nothing is made before the client reads.
      { highWaterMark: 0 },
    )
  }

  /** Ends the response as if it were whole; when the client does not read what was written, cuts it within seconds. */
  end(): void {
    if (this.#hasEnded) return
    this.#finish(false)
    if (this.#isPullPending) this.#controller?.close()
    else cutConnection(this.#source.request)
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#stallTimer.cancel()
    if (this.#hasEnded) return controller.error(new Error('the response has ended'))
    this.#isPullPending = true
    try {
      const piece = await this.#source.next()
      if (this.#hasEnded) return
      if (piece === undefined) {
        this.#finish(true)
        controller.close()
      } else if (isRevoked(this.#source.request)) {
        this.#cut()
        controller.error(new Error('the client has lost access'))
      } else {
        this.#stallTimer = this.#waitForClient()
        controller.enqueue(piece)
      }
    } catch (error) {
      this.#cut()
      this.#source.onFailed(error)
      controller.error(error)
    } finally {
      this.#isPullPending = false
    }
  }

  #waitForClient(): Timer {
    return this.#source.clock.after(CLIENT_STALL_MS, () => this.#cut())
  }

  #cut(): void {
    if (this.#hasEnded) return
    this.#finish(false)
    cutConnection(this.#source.request)
  }

  #finish(isWhole: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#stallTimer.cancel()
    restoreTimeLimit(this.#source.request)
    this.#source.onEnded(isWhole)
  }
}

/**
 * Memory per response: the compressed part of a file being read, the piece decompressed from it, and what the socket has
 * not sent.
 */
export const DOWNLOAD_BYTES = 512 * KiB
/** Long responses and large bodies together may use this fraction, so that slow clients cannot block all others. */
const MAX_MEMORY_FRACTION = 0.75

/** Throws a 503 when there is no memory for another long response. */
export function reserveForResponse(memory: MemoryBudget): Reservation {
  const isCrowded = memory.inUseBytes + DOWNLOAD_BYTES > memory.limitBytes * MAX_MEMORY_FRACTION
  const reservation = isCrowded ? undefined : memory.reserve(DOWNLOAD_BYTES)
  if (!reservation) throw serverBusy()
  return reservation
}
