/**
 * @module Responses with untrusted bytes, which a browser saves but never shows or runs. Long responses are sent chunk
 * by chunk, as fast as the client reads; JSON that is too long to hold in memory, too. Declares in a route's `detail` that
 * it takes or returns CSV or files.
 */
import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import type { Clock } from '#platform/time/clock.ts'
import { KiB } from '../units.ts'
import { responseHeaders } from './access.ts'
import { acceptsBody } from './body.ts'
import { PacedBody, type PacedSource, reserveForResponse } from './paced-body.ts'
import { requestContext, yieldFairly } from './request-context.ts'

/**
 * Types that a browser does not run as a page or a script. Any other type, including HTML and SVG, is sent as
 * application/octet-stream.
 */
const SAFE_TYPES: ReadonlySet<string> = new Set([
  ...`application/gzip application/json application/msword application/pdf application/vnd.ms-excel
  application/vnd.ms-powerpoint application/vnd.openxmlformats-officedocument.presentationml.presentation
  application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
  application/vnd.openxmlformats-officedocument.wordprocessingml.document application/zip audio/mpeg audio/ogg
  audio/wav image/bmp image/gif image/jpeg image/png image/tiff image/webp message/rfc822 text/calendar text/csv
  text/plain text/vcard video/mp4 video/webm`.split(/\s+/),
  'text/csv; charset=utf-8',
])

/** Name and type of a file. */
export interface FileName {
  /**
   * The type that the sender declared. A type that a browser could run or show as a page, or an invalid one, becomes
   * application/octet-stream.
   */
  readonly contentType: string
  /** The name that the sender declared; null: none. */
  readonly filename: string | null
}

/**
 * A response with the content as a file (RFC 6266). A browser saves the file: it does not show the file, guess its type
 * or load anything for it.
 */
export function createDownload(
  content: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null,
  file: FileName,
): Response {
  return new Response(content, {
    headers: {
      'content-type': SAFE_TYPES.has(file.contentType) ? file.contentType : 'application/octet-stream',
      'content-disposition': formatDisposition(file.filename),
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cache-control': 'private, no-store',
    },
  })
}

export interface StreamContext {
  readonly clock: Pick<Clock, 'after'>
  readonly memory: MemoryBudget
  readonly log: { error(context: object, message: string): void }
}

/**
 * A response with a file of any length, read chunk by chunk as the client takes it. Throws a 503 when there is no
 * memory for another download.
 * @param open starts reading; this function throws the errors of `open`. A later read error cuts the connection
 */
export function streamDownload(
  context: StreamContext,
  request: Request,
  open: () => Iterable<Uint8Array>,
  file: FileName,
): Response {
  // HEAD has no body: a stream that no one reads would never end.
  if (request.method === 'HEAD') {
    open()
    return createDownload(null, file)
  }
  return sendPieces(context, request, file, () => {
    const chunks = open()[Symbol.iterator]()
    return {
      async next() {
        // A client that reads everything immediately would monopolise the event loop.
        await yieldFairly(request)
        return joinChunks(chunks)
      },
      // Closes the file being read.
      onEnded: () => void chunks.return?.(),
    }
  })
}

/** A response with pieces that are made as the client takes them. Throws as `streamDownload` does. */
function sendPieces(
  { clock, memory, log }: StreamContext,
  request: Request,
  file: FileName,
  open: () => Pick<PacedSource, 'next' | 'onEnded'>,
): Response {
  const reservation = reserveForResponse(memory)
  let source: ReturnType<typeof open>
  try {
    source = open()
  } catch (error) {
    reservation.release()
    throw error
  }
  const { stream } = new PacedBody({
    request,
    clock,
    next: source.next,
    onEnded(isWhole) {
      reservation.release()
      source.onEnded(isWhole)
    },
    onFailed(error) {
      const { requestId } = requestContext(request) ?? {}
      log.error({ err: error, requestId }, 'download aborted: its content could not be read')
    },
  })
  return createDownload(stream, file)
}

/** Smaller chunks are joined. */
const MIN_PIECE_BYTES = 64 * KiB

/** The next piece; undefined at the end. */
function joinChunks(chunks: Iterator<Uint8Array>): Uint8Array | undefined {
  const joined: Uint8Array[] = []
  for (let sizeBytes = 0; sizeBytes < MIN_PIECE_BYTES; ) {
    const { done, value } = chunks.next()
    if (done) break
    if (value.length > 0) joined.push(value)
    sizeBytes += value.length
  }
  return joined.length <= 1 ? joined[0] : Buffer.concat(joined)
}

/** Smaller pieces are joined. */
const MIN_JSON_LENGTH = 32 * KiB

/**
 * Streams pieces of a JSON text. Each piece is created on demand and must be quick; an empty piece adds no text, but
 * lets other work run. Throws a 503 when there is no memory for another response; then `onEnded` is not called.
 * @param on.onEnded as in `PacedSource`
 */
export const streamJson = (
  context: StreamContext,
  request: Request,
  pieces: Iterator<string> | AsyncIterator<string>,
  on: { readonly filename: string; onEnded(isWhole: boolean): void },
): Response =>
  sendPieces(context, request, { contentType: 'application/json', filename: on.filename }, () => ({
    async next() {
      let text = ''
      while (text.length < MIN_JSON_LENGTH) {
        await yieldFairly(request)
        const { done, value } = await pieces.next()
        if (done) break
        text += value
      }
      return text === '' ? undefined : Buffer.from(text)
    },
    onEnded(isWhole) {
      // Releases the source of the pieces if the client stopped early.
      void pieces.return?.()
      on.onEnded(isWhole)
    },
  }))

/**
 * For a route's `detail`: says that the route responds with a file.
 * @param mediaType the fixed type of the file; default: any type
 * @param schema of the content, if it is text
 */
export const fileResponseSpec = (
  description: string,
  mediaType = '*/*',
  schema: object = { type: 'string', format: 'binary' },
) => ({
  responses: { 200: { description, content: { [mediaType]: { schema } } } },
  ...responseHeaders('Content-Disposition'),
})

/**
 * A name that is not plain ASCII is sent in the form of RFC 8187 §3.2, after a plain form that every client can read.
 */
function formatDisposition(filename: string | null): string {
  if (filename === null || filename === '') return 'attachment'
  const plain = filename.replace(/[^ -~]|["\\%]/g, '_')
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return plain === filename
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

export const CSV_TYPE = 'text/csv'

/**
 * `detail: { ..., ...csvBody('...') }`: the body is CSV; the handler gets its bytes, undefined when it is empty.
 * @param format `csv-stream`: for a body of any length; the handler gets a `BodyStream`
 */
export const csvBody = (description: string, format: 'csv' | 'csv-stream' = 'csv') => ({
  ...acceptsBody(format),
  requestBody: { required: true, content: { [CSV_TYPE]: { schema: { type: 'string' as const, description } } } },
})

/** The response is CSV. */
export const csvResponseSpec = (description: string) =>
  fileResponseSpec('Done.', CSV_TYPE, { type: 'string', description })
