/**
 * @module What a client still sends when its response is ready. Many clients write their whole body before they read,
 * and see a reset instead of the response if the connection is closed meanwhile. Bun 1.4.5 reads on by itself, until
 * the time limit of the connection, and keeps nothing. But if the client asked for `Connection: close`, it closes right
 * after the response, so that response waits here.
 */
import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import { type Clock, limitTime } from '#platform/time/clock.ts'
import { MiB, seconds } from '../units.ts'

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
