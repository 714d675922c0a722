/**
 * @module A request body that its handler reads chunk by chunk as it arrives, so its length does not matter. Bun 1.4.5
 * buffers only one chunk of up to 1.5 MiB, so TCP slows down a client that sends faster than the handler reads. There
 * is no time limit for the whole body, only a minimum rate.
 *
 * And what a client still sends when its response is ready. Many clients write their whole body before they read, and
 * see a reset instead of the response if the connection is closed meanwhile. Bun reads on by itself, until the time
 * limit of the connection, and keeps nothing. But if the client asked for `Connection: close`, it closes right after the
 * response, so that response waits here.
 */
import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import { type Clock, limitTime } from '#platform/time/clock.ts'
import { AppError, unauthorized } from '../errors.ts'
import { KiB, MiB, seconds } from '../units.ts'
import { isRevoked, liftTimeLimit, restoreTimeLimit } from './request-context.ts'

/**
 * The chunks of a body; readable once. When the reader stops, the rest is discarded. Reading throws 400 when the client
 * disconnects, 401 when it loses access, 408 when it sends too slowly, 413 when it sends too much.
 */
export type BodyStream = AsyncIterable<Uint8Array>

/**
 * Memory reserved for a streamed body: the current chunk, and one that Bun buffers. `onConsumed` reports chunks that
 * became garbage.
 */
export const STREAM_BYTES = 4 * MiB

/**
 * Maximum time spent waiting for a client for each `MIN_BYTES_PER_TIMEOUT` received. The handler's own time does not
 * count.
 */
const READ_TIMEOUT_MS = seconds(60)
const MIN_BYTES_PER_TIMEOUT = 256 * KiB

/** The body of a request as a stream of at most `maxBytes`. Nothing is read before the first chunk is requested. */
export const createBodyStream = (
  request: Request,
  options: {
    readonly maxBytes: number
    readonly clock: Pick<Clock, 'monotonicMs' | 'after'>
    /** Called for each chunk that became garbage. */
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
  const readWithTimeout = createReadTimeout(clock)
  let sizeBytes = 0
  try {
    for (;;) {
      const { done, value } = await readWithTimeout(reader.read())
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
    await stopReading(request, reader)
    restoreTimeLimit(request)
  }
}

type ReadResult = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>

/** Limits each read to the time that remains, which is reset after every `MIN_BYTES_PER_TIMEOUT` received. */
function createReadTimeout(
  clock: Pick<Clock, 'monotonicMs' | 'after'>,
): (reading: Promise<ReadResult>) => Promise<ReadResult> {
  let leftMs = READ_TIMEOUT_MS
  let receivedBytes = 0
  return async (reading) => {
    const sinceMs = clock.monotonicMs()
    const read = await limitTime(clock, leftMs, reading, bodyTooSlow)
    leftMs -= clock.monotonicMs() - sinceMs
    receivedBytes += read.value?.length ?? 0
    if (receivedBytes >= MIN_BYTES_PER_TIMEOUT) {
      leftMs = READ_TIMEOUT_MS
      receivedBytes = 0
    }
    return read
  }
}

export const bodyTooLarge = (maxBytes: number): AppError =>
  new AppError(413, 'payload_too_large', `The request body is larger than the ${maxBytes} bytes allowed.`)

export const bodyTooSlow = (): AppError =>
  new AppError(408, 'request_timeout', 'The request body did not arrive in time; send it again.', {
    headers: { connection: 'close' },
  })

/** The client disconnected in the middle of its body, so no one reads this response. */
export const bodyInterrupted = (cause: unknown): AppError =>
  new AppError(400, 'request_interrupted', 'The request body ended before it was complete.', { cause })

/** Memory for what Bun buffers of a body that is read on, and for the chunk that was read last. */
const RESERVED_BYTES = 2 * MiB
/** A body that goes on for longer is cut. */
const MAX_BYTES = 256 * MiB
/** Less than Bun's time for handlers after a slow body. */
const MAX_MS = seconds(10)

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'cancel' | 'releaseLock'>

const CLOSE = /\bclose\b/i
const closesAfterResponse = ({ headers }: Request): boolean => CLOSE.test(headers.get('connection') ?? '')

/** Ends the reading of a body that is refused or no longer needed, so that `readOn` can discard the rest. */
export async function stopReading(request: Request, reader: Reader): Promise<void> {
  if (closesAfterResponse(request)) reader.releaseLock()
  else await reader.cancel().catch(() => undefined)
}

/** Resolves when the response may be sent: all of the body has been read, or enough of it, or for long enough. */
export async function readOn(
  request: Request,
  options: {
    readonly memory: MemoryBudget
    readonly clock: Pick<Clock, 'after'>
    /** Called for each chunk that became garbage. */
    readonly onConsumed: (bytes: number) => void
  },
): Promise<void> {
  if (!closesAfterResponse(request) || !request.body || request.body.locked) return
  const reservation = options.memory.reserve(RESERVED_BYTES)
  if (!reservation) return
  const reader = request.body.getReader()
  const discard = async (): Promise<void> => {
    for (let sizeBytes = 0; sizeBytes <= MAX_BYTES; ) {
      const { value } = await reader.read()
      if (!value) return
      sizeBytes += value.length
      options.onConsumed(value.length)
    }
  }
  try {
    await limitTime(options.clock, MAX_MS, discard(), () => new Error('the client sends for too long'))
  } catch {
    // The client has disconnected, or sends for too long.
  } finally {
    await reader.cancel().catch(() => undefined)
    reservation.release()
  }
}
