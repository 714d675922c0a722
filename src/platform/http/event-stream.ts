/**
 * @module Server-sent events (HTML Standard, section 9.2): their text, and an answer that is written no faster than its client reads. Knows no
 * product; what is told, and when, is the source's.
 */
import type { Clock, Timer } from '../clock.ts'
import { seconds } from '../units.ts'
import { cutConnection, liftTimeLimit, restoreTimeLimit } from './request-context.ts'

export const EVENT_STREAM_TYPE = 'text/event-stream'

/** For a route's `detail`: what the stream is, when the route also answers with one. `openapi.ts` makes a content type of it. */
export const EVENT_STREAM = 'x-event-stream'

/**
 * Whether an `Accept` header asks for a stream, and would not rather have JSON (RFC 9110 §12.5.1). Wildcards do not ask: JSON is for whoever does not
 * care.
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
 * One event.
 * @param event its name
 * @param data one line, such as JSON
 */
export const formatEvent = (id: number, event: string, data: string): string =>
  `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`

/** Tells the client an id to come back with, without an event. */
export const formatId = (id: number): string => `id: ${id}\n\n`

/** What clients ignore; it shows them, and whoever is in between, that the connection lives. */
export const formatComment = (comment: string): string => `: ${comment}\n\n`

/** How long a client is to wait before it connects again. */
export const formatRetry = (retryMs: number): string => `retry: ${retryMs}\n\n`

export interface EventStreamOptions {
  readonly request: Request
  readonly clock: Pick<Clock, 'after'>
  /**
   * The next piece: whole events. Undefined ends the stream. Asked only when the client has taken the piece before, but for what the kernel
   * keeps for it; so a client that never reads costs one piece here.
   */
  next(): Promise<string | undefined>
  /** Called once, when it is over: ended by us, or left by the client. */
  onEnded(): void
  /** Told of an error in `next`, which ends the stream. */
  onError(error: unknown): void
}

export interface EventStream {
  readonly response: Response
  /** Ends it at once; when the client does not take what was written to it, in some seconds. */
  end(): void
}

/** A client that took nothing for so long is gone, or might as well be. */
export const CLIENT_STALL_MS = seconds(60)

/** A stream as the answer to `request`, whose connection may then live as long as it reads. */
export function openEventStream({ request, clock, next, onEnded: onEnd, onError }: EventStreamOptions): EventStream {
  const encoder = new TextEncoder()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  let untaken: Timer | undefined
  let isAsked = false
  let isOver = false

  const finish = (): void => {
    if (isOver) return
    isOver = true
    untaken?.cancel()
    restoreTimeLimit(request)
    onEnd()
  }
  const expectTaking = (): void => {
    untaken = clock.after(CLIENT_STALL_MS, () => {
      finish()
      cutConnection(request)
    })
  }
  const piece = async (): Promise<string | undefined> => {
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
        // A client that is gone before it is written to must not keep its place either.
        expectTaking()
      },
      async pull(streamController) {
        untaken?.cancel()
        if (isOver) return streamController.close()
        isAsked = true
        const text = await piece()
        isAsked = false
        if (isOver) return
        if (text === undefined) {
          finish()
          return streamController.close()
        }
        streamController.enqueue(encoder.encode(text))
        expectTaking()
      },
      cancel: finish,
    },
    // Nothing is asked for ahead of the client.
    { highWaterMark: 0 },
  )
  liftTimeLimit(request)

  return {
    response: new Response(body, {
      headers: {
        'content-type': EVENT_STREAM_TYPE,
        'cache-control': 'no-store',
        // nginx and others would otherwise collect it.
        'x-accel-buffering': 'no',
      },
    }),
    end() {
      if (isOver) return
      finish()
      if (isAsked) controller?.close()
      else cutConnection(request)
    },
  }
}
