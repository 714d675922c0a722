/**
 * @module Converts a message to the octets of DATA: doubles dots at the start of lines and appends the final dot (RFC
 * 5321 §4.5.2). Changes nothing else; line ends must already be CRLF.
 */
import { asBuffer, joinPieces } from '../mime/source.ts'

const CR = 13
const LF = 10
const DOT = 46
const DOT_AFTER_CRLF = Buffer.from('\r\n.')
const END_AFTER_CRLF = Buffer.from('.\r\n')
const END_OF_UNFINISHED_LINE = Buffer.from('\r\n.\r\n')

/**
 * So large that most messages fit one write, and so small that the timeout for a block distinguishes a slow peer from a
 * dead one.
 */
export const DEFAULT_BLOCK_BYTES = 64 * 1024

/**
 * Yields the blocks to write after a 354; the last block ends in CRLF, dot, CRLF. Adds a missing CRLF to the last line
 * of the message; an empty message is only the final dot. If a block comes from a single piece and has no dots to
 * double, it is a view of that piece.
 *
 * @param pieces of the message, in order; they may begin and end anywhere
 * @param blockBytes octets of the message per block, before dots are doubled
 */
export function* generateDataBlocks(
  pieces: readonly Uint8Array[],
  blockBytes: number = DEFAULT_BLOCK_BYTES,
): Generator<Uint8Array, void, void> {
  let block: Uint8Array[] = []
  let length = 0
  const stuffer = new DotStuffer()
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; ) {
      if (length === blockBytes) {
        yield joinPieces(block)
        block = []
        length = 0
      }
      const taken = piece.subarray(from, from + blockBytes - length)
      block.push(stuffer.stuff(taken))
      length += taken.length
      from += taken.length
    }
  }
  block.push(stuffer.isAtLineStart ? END_AFTER_CRLF : END_OF_UNFINISHED_LINE)
  yield Buffer.concat(block)
}

class DotStuffer {
  // The message begins at the start of a line, so a dot there is doubled.
  #beforeLast = CR
  #last = LF

  get isAtLineStart(): boolean {
    return this.#beforeLast === CR && this.#last === LF
  }

  /** Returns the next octets of the message with dots doubled; if there is no dot to double, a view of the octets. */
  stuff(octets: Uint8Array): Uint8Array {
    const bytes = asBuffer(octets)
    const mayStartWithDot = (this.isAtLineStart && bytes[0] === DOT) || (this.#last === CR && bytes[0] === LF)
    const stuffed = mayStartWithDot || bytes.includes(DOT_AFTER_CRLF) ? this.#doubleDots(bytes) : bytes
    this.#beforeLast = (bytes.length > 1 ? bytes.at(-2) : this.#last) ?? 0
    this.#last = bytes.at(-1) ?? 0
    return stuffed
  }

  #doubleDots(bytes: Buffer): Buffer {
    const out = Buffer.allocUnsafe(bytes.length * 2)
    let at = 0
    let beforeLast = this.#beforeLast
    let last = this.#last
    for (let i = 0; i < bytes.length; i++) {
      const octet = bytes[i] ?? 0
      if (octet === DOT && last === LF && beforeLast === CR) out[at++] = DOT
      out[at++] = octet
      beforeLast = last
      last = octet
    }
    return out.subarray(0, at)
  }
}
