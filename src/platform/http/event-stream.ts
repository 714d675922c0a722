/**
 * @module Server-sent events (HTML Standard, section 9.2): formats events, and streams them no faster than the client
 * reads. The source decides what is sent and when.
 */
import { PacedBody, type PacedSource } from './paced-body.ts'

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

export type EventStream = ReturnType<typeof openEventStream>

/**
 * Opens a stream as the response to `request`, whose connection then lives as long as the client reads.
 * @param source.next returns the next chunk, which holds whole events; undefined, or an error, ends the stream
 */
export function openEventStream({
  next,
  onError,
  ...source
}: Pick<PacedSource, 'request' | 'clock'> & {
  next(): Promise<string | undefined>
  onEnded(): void
  onError(error: unknown): void
}) {
  const body = new PacedBody({
    ...source,
    async next() {
      try {
        const text = await next()
        return text === undefined ? undefined : Buffer.from(text)
      } catch (error) {
        onError(error)
        return undefined
      }
    },
    onFailed: onError,
  })
  return {
    response: new Response(body.stream, {
      headers: {
        'content-type': EVENT_STREAM_TYPE,
        'cache-control': 'no-store',
        // Without this header, nginx and other proxies would buffer the stream.
        'x-accel-buffering': 'no',
      },
    }),
    /** Ends the stream immediately; when the client does not read what was written, within seconds. */
    end: () => body.end(),
  }
}
