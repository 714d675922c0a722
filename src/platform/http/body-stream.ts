/**
 * @module A body that its handler reads as it arrives, piece by piece, so that its length does not matter. A client that is faster than the handler is
 * held back by TCP: Bun 1.4.5 holds one piece of up to 1.5 MiB. There is no limit of time on the whole; it must keep coming.
 */
import type { Clock } from '../clock.ts'
import { AppError, unauthorized } from '../errors.ts'
import { KiB, MiB, seconds } from '../units.ts'
import { bodyInterrupted, bodyTooLarge, bodyTooSlow } from './body-errors.ts'
import { isRevoked, liftTimeLimit, restoreTimeLimit } from './request-context.ts'

/**
 * The pieces of a body, once. To stop reading is to stop taking: what is still to come is thrown away. Reading throws 400 when the client went away,
 * 401 when it lost its access, 408 when it sends too slowly, 413 when it sends too much.
 */
export type BodyStream = AsyncIterable<Uint8Array>

/** Memory held for a body that is read so: a piece in hand and one that Bun has. What was in hand is garbage, of which its reader is told. */
export const STREAM_BYTES = 4 * MiB

/** A client is waited for so long in all until so many bytes more are there. Time that the handler takes does not count. */
const READ_TIMEOUT_MS = seconds(60)
const MIN_BYTES_PER_TIMEOUT = 256 * KiB

/** The body of a request as a stream of at most `maxBytes`. Nothing is read before the first piece is asked for. */
export const createBodyStream = (
  request: Request,
  options: {
    readonly maxBytes: number
    readonly clock: Pick<Clock, 'monotonicMs' | 'after'>
    /** Told of each piece that is garbage now. */
    readonly onConsumed: (bytes: number) => void
  },
): BodyStream => ({ [Symbol.asyncIterator]: () => readChunks(request, options) })

async function* readChunks(
  request: Request,
  { maxBytes, clock, onConsumed: onTaken }: Parameters<typeof createBodyStream>[1],
) {
  const reader = request.body?.getReader()
  if (!reader) return
  liftTimeLimit(request)
  const patiently = createReadTimeout(clock)
  let sizeBytes = 0
  try {
    for (;;) {
      const { done, value } = await patiently(reader.read())
      if (isRevoked(request)) throw unauthorized()
      if (done) return
      sizeBytes += value.length
      if (sizeBytes > maxBytes) throw bodyTooLarge(maxBytes)
      yield value
      onTaken(value.length)
    }
  } catch (error) {
    throw error instanceof AppError ? error : bodyInterrupted(error)
  } finally {
    await reader.cancel().catch(() => undefined)
    restoreTimeLimit(request)
  }
}

type ReadResult = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>

/** Waits for each read as long as there is patience left; bytes bring it back. */
function createReadTimeout(
  clock: Pick<Clock, 'monotonicMs' | 'after'>,
): (reading: Promise<ReadResult>) => Promise<ReadResult> {
  let leftMs = READ_TIMEOUT_MS
  let gotBytes = 0
  return async (reading) => {
    const { promise: expiry, reject } = Promise.withResolvers<never>()
    const timer = clock.after(leftMs, () => reject(bodyTooSlow()))
    const sinceMs = clock.monotonicMs()
    try {
      const read = await Promise.race([reading, expiry])
      leftMs -= clock.monotonicMs() - sinceMs
      gotBytes += read.value?.length ?? 0
      if (gotBytes >= MIN_BYTES_PER_TIMEOUT) {
        leftMs = READ_TIMEOUT_MS
        gotBytes = 0
      }
      return read
    } finally {
      timer.cancel()
    }
  }
}
