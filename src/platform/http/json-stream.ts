/**
 * @module JSON responses that are too long to hold in memory: written piece by piece, no faster than the client reads.
 * A response that fails midway is cut off, so that no client takes a partial response for the whole.
 */
import type { TSchema } from '@sinclair/typebox'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { KiB, seconds } from '../units.ts'
import { serverBusy } from './body.ts'
import { createDownload, DOWNLOAD_BYTES, type StreamContext } from './download.ts'
import {
  cutConnection,
  isRevoked,
  liftTimeLimit,
  requestContext,
  restoreTimeLimit,
  yieldFairly,
} from './request-context.ts'
import { responseHeaders } from './route-errors.ts'

/** A client that reads nothing for this long is treated as disconnected. */
const STALL_MS = seconds(60)
/** Smaller pieces are combined. */
const MIN_CHUNK_LENGTH = 32 * KiB
/** These responses, downloads and large bodies together may use this fraction of the memory. */
const MAX_MEMORY_FRACTION = 0.75

export interface JsonStreamOptions {
  readonly filename: string
  /**
   * Called once, when the response has ended.
   * @param isWhole whether the client has read everything, apart from kernel buffers
   */
  onEnded(isWhole: boolean): void
}

/**
 * Streams pieces of a JSON text. Each piece is created on demand and must be quick; an empty piece adds no text, but
 * lets other work run. Throws a 503 when there is no memory for another response; then `onEnded` is not called.
 */
export function streamJson(app: JsonStreamContext, request: Request, pieces: Pieces, on: JsonStreamOptions): Response {
  const { memory } = app
  const isCrowded = memory.inUseBytes + DOWNLOAD_BYTES > memory.limitBytes * MAX_MEMORY_FRACTION
  const reservation = isCrowded ? undefined : memory.reserve(DOWNLOAD_BYTES)
  if (!reservation) throw serverBusy()
  liftTimeLimit(request)
  const stream = new JsonStream(app, request, pieces, (isWhole) => {
    reservation.release()
    restoreTimeLimit(request)
    // Releases the source of the pieces if the client stopped early.
    void pieces.return?.()
    on.onEnded(isWhole)
  })
  const body = new ReadableStream<Uint8Array>(stream, { highWaterMark: 0 })
  return createDownload(body, { contentType: 'application/json', filename: on.filename })
}

type JsonStreamContext = StreamContext & { readonly clock: Pick<Clock, 'after'> }
type Pieces = Iterator<string> | AsyncIterator<string>

/**
 * The source of a response body. It ends after its last piece, when the client disconnects, or when the client reads
 * nothing for too long.
 */
class JsonStream {
  readonly #app: JsonStreamContext
  readonly #request: Request
  readonly #pieces: Pieces
  readonly #onEnded: (isWhole: boolean) => void
  readonly #encoder = new TextEncoder()
  #stallTimer: Timer
  #hasEnded = false
  #isWritten = false

  /** @param onEnded called once, at the end */
  constructor(app: JsonStreamContext, request: Request, pieces: Pieces, over: (isWhole: boolean) => void) {
    this.#app = app
    this.#request = request
    this.#pieces = pieces
    this.#onEnded = over
    this.#stallTimer = this.#waitForClient()
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#stallTimer.cancel()
    // The stream is pulled again only once the client has read everything.
    if (this.#isWritten) {
      this.#end(true)
      return controller.close()
    }
    try {
      const text = await this.#read()
      if (isRevoked(this.#request)) this.#cut()
      if (text === undefined || this.#hasEnded) return controller.error(new Error('the response has ended'))
      this.#stallTimer = this.#waitForClient()
      if (text !== '') return controller.enqueue(this.#encoder.encode(text))
      this.#end(true)
      controller.close()
    } catch (error) {
      const { requestId } = requestContext(this.#request) ?? {}
      this.#app.log.error({ err: error, requestId }, 'response aborted: it could not be completed')
      this.#cut()
      controller.error(error)
    }
  }

  cancel(): void {
    this.#end(false)
  }

  /**
   * Returns the next text; an empty text means that all pieces were read. Undefined: the stream ended during the wait.
   */
  async #read(): Promise<string | undefined> {
    let text = ''
    while (text.length < MIN_CHUNK_LENGTH) {
      await yieldFairly(this.#request)
      if (this.#hasEnded) return undefined
      const { done, value } = await this.#pieces.next()
      if (done) {
        this.#isWritten = true
        break
      }
      text += value
    }
    return text
  }

  #waitForClient(): Timer {
    return this.#app.clock.after(STALL_MS, () => this.#cut())
  }

  #cut(): void {
    this.#end(false)
    cutConnection(this.#request)
  }

  #end(isWhole: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#stallTimer.cancel()
    this.#onEnded(isWhole)
  }
}

/** For a route's `detail`: says that the route responds with a streamed JSON text of this schema. */
export const streamedResponseSpec = (description: string, schema: TSchema) => ({
  responses: { 200: { description, content: { 'application/json': { schema: schema as object } } } },
  ...responseHeaders('Content-Disposition'),
})
