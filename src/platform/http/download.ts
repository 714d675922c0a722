/** @module Answers with bytes of strangers: to be saved, never to be shown or run by a browser. Long ones leave in slices, as the client takes them. */
import { type Clock, yieldToEventLoop } from '../clock.ts'
import type { MemoryBudget } from '../memory-budget.ts'
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

/** Types that run nothing wherever they are opened; anything else, HTML and SVG among it, is handed out as bytes of no kind. */
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

/** What a file is called. */
export interface FileName {
  /** As its sender says; one that a browser could run or show as a page, or that is none, becomes application/octet-stream. */
  readonly contentType: string
  /** As its sender says; null: it has none. */
  readonly filename: string | null
}

/**
 * The content as a file (RFC 6266). Whatever it is, a browser saves it: it is not displayed, not guessed at, and may load nothing.
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

/** What a download holds: the compressed part of a file that is being read, the slice made of it, and what the socket has not taken. */
export const DOWNLOAD_BYTES = 512 * KiB
/** Downloads share this part of the memory with large bodies, so that slow clients cannot keep everybody else out. */
const MAX_DOWNLOAD_FRACTION = 0.75

/**
 * The content as a file whose length does not matter: it is read slice by slice, as the client takes it. 503 when there is no memory for another.
 * @param open begins to read; what it throws is thrown, and what reading throws later ends the connection, so that nobody takes a part for the whole
 */
export function streamDownload(
  app: StreamContext,
  request: Request,
  open: () => Iterable<Uint8Array>,
  file: FileName,
): Response {
  const { memory, log } = app
  // What nobody takes, nobody would end.
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
  const stream = createPacedStream({ clock: app.clock, takeTurn: () => yieldFairly(request) }, slices, {
    onEnded() {
      reservation.release()
      restoreTimeLimit(request)
    },
    isRevoked: () => isRevoked(request),
    onCut: () => cutConnection(request),
    onFailed(error) {
      log.error(
        { err: error, requestId: requestContext(request)?.requestId },
        'a download could not be read to its end',
      )
      cutConnection(request)
    },
  })
  return createDownload(stream, file)
}

/** A client that takes nothing for so long is gone. */
const STALL_MS = seconds(60)
/** Smaller slices go together. */
const MIN_CHUNK_BYTES = 64 * KiB

export interface StreamEvents {
  /** Once, however it ends, before any of the others. */
  onEnded(): void
  /** Whether the client may have no more of it. */
  isRevoked(): boolean
  /** The client has taken nothing for a minute, or may have no more. */
  onCut(): void
  /** The slices could not be read. */
  onFailed(error: unknown): void
}

/**
 * Slices as a stream that reads on only when it is asked. Who asks after its end by `cut` or `failed` gets an error.
 */
export function createPacedStream(
  { clock, takeTurn = yieldToEventLoop }: Pick<StreamContext, 'clock'> & { readonly takeTurn?: () => Promise<void> },
  slices: Iterable<Uint8Array>,
  on: StreamEvents,
): ReadableStream<Uint8Array> {
  const iterator = slices[Symbol.iterator]()
  let isOver = false
  const end = (): void => {
    if (isOver) return
    isOver = true
    stall.cancel()
    // Closes the file that is being read.
    iterator.return?.()
    on.onEnded()
  }
  const wait = () =>
    clock.after(STALL_MS, () => {
      end()
      on.onCut()
    })
  let stall = wait()
  return new ReadableStream(
    {
      async pull(controller) {
        stall.cancel()
        // A client that takes all at once would keep the event loop to itself.
        await takeTurn()
        if (!isOver && on.isRevoked()) {
          end()
          on.onCut()
        }
        if (isOver) return controller.error(new Error('the download is over'))
        const taken: Uint8Array[] = []
        let takenBytes = 0
        let isAtEnd = false
        try {
          while (!isAtEnd && takenBytes < MIN_CHUNK_BYTES) {
            const { done, value } = iterator.next()
            isAtEnd = done === true
            if (done) break
            taken.push(value)
            takenBytes += value.length
          }
        } catch (error) {
          end()
          on.onFailed(error)
          return controller.error(error)
        }
        const [first] = taken
        if (first && takenBytes > 0) controller.enqueue(taken.length === 1 ? first : Buffer.concat(taken))
        if (isAtEnd) {
          end()
          return controller.close()
        }
        stall = wait()
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  )
}

/**
 * For a route's `detail`: that it answers with a file.
 * @param mediaType what it always is; left out: of any type
 */
export const fileResponseSpec = (description: string, mediaType = '*/*') => ({
  responses: {
    200: { description, content: { [mediaType]: { schema: { type: 'string' as const, format: 'binary' } } } },
  },
})

/** RFC 8187 §3.2 for what is not plain ASCII, beside a form that everybody reads. */
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
