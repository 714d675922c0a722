/**
 * @module Server-sent events (HTML Standard, section 9.2): formats events, and streams them no faster than the client
 * reads. The source decides what is sent and when.
 */
import type { Clock, Timer } from '#platform/time/clock.ts'
import { seconds } from '../units.ts'
import { cutConnection, liftTimeLimit, restoreTimeLimit } from './request-context.ts'

export const EVENT_STREAM_TYPE = 'text/event-stream'

/**
 * For a route's `detail`: describes the stream, when the route can also respond with one. `openapi.ts` turns it into a
 * content type.
 */
export const EVENT_STREAM = 'x-event-stream'

/**
 * Whether an `Accept` header requests a stream and does not prefer JSON (RFC 9110 §12.5.1). Wildcards do not count:
 * clients without a preference get JSON.
 */
export function acceptsEventStream(accept: string | null): boolean {
  const weights = new Map<string, number>()
  for (const range of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => WEIGHT.test(parameter))
    weights.set(type, weight === undefined ? 1 : Number(weight.slice(2)))
  }
  const weight = weights.get(EVENT_STREAM_TYPE) ?? 0
  return weight > 0 && weight >= (weights.get('application/json') ?? 0)
}

const WEIGHT = /^q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/**
 * Formats one event.
 * @param event name of the event
 * @param data one line, such as JSON
 */
export const formatEvent = (id: number, event: string, data: string): string =>
  `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`

/** Sets the id that the client sends when it reconnects, without an event. */
export const formatId = (id: number): string => `id: ${id}\n\n`

/** A comment, which clients ignore. It shows the client and proxies that the connection is alive. */
export const formatComment = (comment: string): string => `: ${comment}\n\n`

/** Sets how long the client waits before it reconnects. */
export const formatRetry = (retryMs: number): string => `retry: ${retryMs}\n\n`

export interface EventStreamOptions {
  readonly request: Request
  readonly clock: Pick<Clock, 'after'>
  /**
   * Returns the next chunk, which holds whole events; undefined ends the stream. Called only when the client has read
   * the previous chunk, apart from kernel buffers, so a client that never reads costs the memory of one chunk.
   */
  next(): Promise<string | undefined>
  /** Called once, when the stream has ended for any reason. */
  onEnded(): void
  /** Called with an error that `next` threw; the error ends the stream. */
  onError(error: unknown): void
}

export interface EventStream {
  readonly response: Response
  /** Ends the stream immediately; when the client does not read what was written, within seconds. */
  end(): void
}

/** A client that reads nothing for this long is treated as disconnected. */
export const CLIENT_STALL_MS = seconds(60)

/** Opens a stream as the response to `request`, whose connection then lives as long as the client reads. */
export function openEventStream({ request, clock, next, onEnded: onEnd, onError }: EventStreamOptions): EventStream {
  const encoder = new TextEncoder()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  let stallTimer: Timer | undefined
  let isPullPending = false
  let hasEnded = false

  const finish = (): void => {
    if (hasEnded) return
    hasEnded = true
    stallTimer?.cancel()
    restoreTimeLimit(request)
    onEnd()
  }
  const startStallTimer = (): void => {
    stallTimer = clock.after(CLIENT_STALL_MS, () => {
      finish()
      cutConnection(request)
    })
  }
  const readNext = async (): Promise<string | undefined> => {
    try {
      return await next()
    } catch (error) {
      onError(error)
      return undefined
    }
  }

  const body = new ReadableStream<Uint8Array>(
    {
      start(streamController) {
        controller = streamController
        // The timer runs from the start, so that a client that disconnects before the first write does not keep its
        // slot.
        startStallTimer()
      },
      async pull(streamController) {
        stallTimer?.cancel()
        if (hasEnded) return streamController.close()
        isPullPending = true
        const text = await readNext()
        isPullPending = false
        if (hasEnded) return
        if (text === undefined) {
          finish()
          return streamController.close()
        }
        streamController.enqueue(encoder.encode(text))
        startStallTimer()
      },
      cancel: finish,
    },
    // The stream requests no chunk before the client reads.
    { highWaterMark: 0 },
  )
  liftTimeLimit(request)

  return {
    response: new Response(body, {
      headers: {
        'content-type': EVENT_STREAM_TYPE,
        'cache-control': 'no-store',
        // Without this header, nginx and other proxies would buffer the stream.
        'x-accel-buffering': 'no',
      },
    }),
    end() {
      if (hasEnded) return
      finish()
      if (isPullPending) controller?.close()
      else cutConnection(request)
    },
  }
}
