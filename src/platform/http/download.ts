/**
 * @module Responses with untrusted bytes, which a browser saves but never shows or runs. Long responses are sent chunk
 * by chunk, as fast as the client reads.
 */

import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import { type Clock, yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, seconds } from '../units.ts'
import { serverBusy } from './body.ts'
import {
  cutConnection,
  isRevoked,
  liftTimeLimit,
  requestContext,
  restoreTimeLimit,
  yieldFairly,
} from './request-context.ts'
import { responseHeaders } from './route-errors.ts'

/**
 * Types that a browser does not run as a page or a script. Any other type, including HTML and SVG, is sent as
 * application/octet-stream.
 */
const SAFE_TYPES: ReadonlySet<string> = new Set([
  'application/gzip',
  'application/json',
  'application/msword',
  'application/pdf',
  'application/vnd.ms-excel',
  'application/vnd.ms-powerpoint',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  'application/zip',
  'audio/mpeg',
  'audio/ogg',
  'audio/wav',
  'image/bmp',
  'image/gif',
  'image/jpeg',
  'image/png',
  'image/tiff',
  'image/webp',
  'message/rfc822',
  'text/calendar',
  'text/csv',
  'text/csv; charset=utf-8',
  'text/plain',
  'text/vcard',
  'video/mp4',
  'video/webm',
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
 * Memory per download: the compressed part of the file being read, the chunk decompressed from it, and what the socket
 * has not sent.
 */
export const DOWNLOAD_BYTES = 512 * KiB
/**
 * Downloads and large bodies together may use this fraction of the memory, so that slow clients cannot block all other
 * requests.
 */
const MAX_DOWNLOAD_FRACTION = 0.75

/**
 * A response with a file of any length, read chunk by chunk as the client takes it. Throws a 503 when there is no
 * memory for another download.
 * @param open starts reading; this function throws the errors of `open`. A later read error cuts the connection, so
 * that no client takes a partial file for the whole
 */
export function streamDownload(
  app: StreamContext,
  request: Request,
  open: () => Iterable<Uint8Array>,
  file: FileName,
): Response {
  const { memory, log } = app
  // HEAD has no body: a stream that no one reads would never end.
  if (request.method === 'HEAD') {
    open()
    return createDownload(null, file)
  }
  const isCrowded = memory.inUseBytes + DOWNLOAD_BYTES > memory.limitBytes * MAX_DOWNLOAD_FRACTION
  const reservation = isCrowded ? undefined : memory.reserve(DOWNLOAD_BYTES)
  if (!reservation) throw serverBusy()
  let slices: Iterable<Uint8Array>
  try {
    slices = open()
  } catch (error) {
    reservation.release()
    throw error
  }
  liftTimeLimit(request)
  const stream = createPacedStream({ clock: app.clock, yieldTurn: () => yieldFairly(request) }, slices, {
    onEnded() {
      reservation.release()
      restoreTimeLimit(request)
    },
    isRevoked: () => isRevoked(request),
    onCut: () => cutConnection(request),
    onFailed(error) {
      log.error(
        { err: error, requestId: requestContext(request)?.requestId },
        'download aborted: its content could not be read',
      )
      cutConnection(request)
    },
  })
  return createDownload(stream, file)
}

/** A client that reads nothing for this long is treated as disconnected. */
const STALL_MS = seconds(60)
/** Smaller chunks are combined. */
const MIN_CHUNK_BYTES = 64 * KiB

export interface StreamEvents {
  /** Called once when the stream ends for any reason, and before `onCut` and `onFailed`. */
  onEnded(): void
  /** Whether the client has lost access. */
  isRevoked(): boolean
  /** Called when the client has read nothing for a minute, or has lost access. */
  onCut(): void
  /** Called when reading the chunks failed. */
  onFailed(error: unknown): void
}

/** A stream that reads the next chunk only on demand. A read after `onCut` or `onFailed` gets an error. */
export function createPacedStream(
  { clock, yieldTurn = yieldToEventLoop }: Pick<StreamContext, 'clock'> & { readonly yieldTurn?: () => Promise<void> },
  slices: Iterable<Uint8Array>,
  on: StreamEvents,
): ReadableStream<Uint8Array> {
  const iterator = slices[Symbol.iterator]()
  let hasEnded = false
  const end = (): void => {
    if (hasEnded) return
    hasEnded = true
    stallTimer.cancel()
    // Closes the file being read.
    iterator.return?.()
    on.onEnded()
  }
  const startStallTimer = () =>
    clock.after(STALL_MS, () => {
      end()
      on.onCut()
    })
  let stallTimer = startStallTimer()
  return new ReadableStream(
    {
      async pull(controller) {
        stallTimer.cancel()
        // A client that reads everything immediately would monopolise the event loop.
        await yieldTurn()
        if (!hasEnded && on.isRevoked()) {
          end()
          on.onCut()
        }
        if (hasEnded) return controller.error(new Error('the download has ended'))
        const chunks: Uint8Array[] = []
        let chunksBytes = 0
        let isAtEnd = false
        try {
          while (!isAtEnd && chunksBytes < MIN_CHUNK_BYTES) {
            const { done, value } = iterator.next()
            isAtEnd = done === true
            if (done) break
            chunks.push(value)
            chunksBytes += value.length
          }
        } catch (error) {
          end()
          on.onFailed(error)
          return controller.error(error)
        }
        const [first] = chunks
        if (first && chunksBytes > 0) controller.enqueue(chunks.length === 1 ? first : Buffer.concat(chunks))
        if (isAtEnd) {
          end()
          return controller.close()
        }
        stallTimer = startStallTimer()
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  )
}

/**
 * For a route's `detail`: says that the route responds with a file.
 * @param mediaType the fixed type of the file; default: any type
 */
export const fileResponseSpec = (description: string, mediaType = '*/*') => ({
  responses: {
    200: { description, content: { [mediaType]: { schema: { type: 'string' as const, format: 'binary' } } } },
  },
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
