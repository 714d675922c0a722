/**
 * @module Answers with JSON that is too long to be held: written piece by piece, no faster than its client reads. One that cannot be written to its end is cut
 * off, so that nobody takes a part for the whole.
 */
import type { TSchema } from '@sinclair/typebox'
import type { Clock } from '../clock.ts'
import { KiB, seconds } from '../units.ts'
import { serverBusy } from './body.ts'
import { DOWNLOAD_BYTES, download, type Streaming } from './download.ts'
import { allowLongWait, cutConnection, endLongWait, isRevoked, requestContext, takeTurn } from './request-context.ts'

/** A client that takes nothing for so long is gone. */
const STALL_MS = seconds(60)
/** Smaller pieces go together. */
const LEAST_CHARACTERS = 32 * KiB
/** These answers share this part of the memory with downloads and large bodies. */
const SHARE = 0.75

export interface JsonStreamed {
  readonly filename: string
  /**
   * Called once, when it is over.
   * @param isWhole whether the client has taken all of it, but for what the kernel keeps for it
   */
  over(isWhole: boolean): void
}

/**
 * Streams pieces of a JSON text. Each piece is made when it is asked for, and must not take long; an empty one gives others their turn. 503 when there is no
 * memory for another such answer: then nothing is called.
 */
export function streamedJson(
  app: Streaming & { readonly clock: Pick<Clock, 'after'> },
  request: Request,
  pieces: Iterator<string> | AsyncIterator<string>,
  on: JsonStreamed,
): Response {
  const { memory, log, clock } = app
  const isCrowded = memory.inUseBytes + DOWNLOAD_BYTES > memory.limitBytes * SHARE
  const reservation = isCrowded ? undefined : memory.reserve(DOWNLOAD_BYTES)
  if (!reservation) throw serverBusy()
  allowLongWait(request)
  const encoder = new TextEncoder()
  let isOver = false
  let isWritten = false

  const end = (isWhole: boolean): void => {
    if (isOver) return
    isOver = true
    stall.cancel()
    reservation.release()
    endLongWait(request)
    // Lets go of what the pieces are made of, when not all of them were wanted.
    void pieces.return?.()
    on.over(isWhole)
  }
  const wait = () =>
    clock.after(STALL_MS, () => {
      end(false)
      cutConnection(request)
    })
  let stall = wait()

  /** The next text, and whether it is the last. Undefined: it is over meanwhile. */
  const read = async (): Promise<string | undefined> => {
    let text = ''
    while (text.length < LEAST_CHARACTERS) {
      await takeTurn(request)
      if (isOver) return undefined
      const { done, value } = await pieces.next()
      if (done) {
        isWritten = true
        break
      }
      text += value
    }
    return text
  }

  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        stall.cancel()
        // It is asked for more only when it has taken what there was.
        if (isWritten) {
          end(true)
          return controller.close()
        }
        try {
          const text = await read()
          if (isRevoked(request)) {
            end(false)
            cutConnection(request)
          }
          if (text === undefined || isOver) return controller.error(new Error('the answer is over'))
          stall = wait()
          if (text !== '') return controller.enqueue(encoder.encode(text))
          end(true)
          controller.close()
        } catch (error) {
          log.error(
            { err: error, requestId: requestContext(request)?.requestId },
            'an answer could not be written to its end',
          )
          end(false)
          cutConnection(request)
          controller.error(error)
        }
      },
      cancel: () => end(false),
    },
    { highWaterMark: 0 },
  )
  return download(body, { contentType: 'application/json', filename: on.filename })
}

/** For a route's `detail`: that it answers with such a text of this shape. */
export const streamedAnswer = (description: string, schema: TSchema) => ({
  responses: { 200: { description, content: { 'application/json': { schema: schema as object } } } },
})
