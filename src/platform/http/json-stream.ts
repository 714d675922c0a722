/** @module JSON responses that are too long to hold in memory, made piece by piece. */
import { KiB } from '../units.ts'
import { type StreamContext, sendPieces } from './download.ts'
import { yieldFairly } from './request-context.ts'

/** Smaller pieces are joined. */
const MIN_PIECE_LENGTH = 32 * KiB

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
      while (text.length < MIN_PIECE_LENGTH) {
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
