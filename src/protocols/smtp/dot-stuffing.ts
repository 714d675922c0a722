/**
 * @module A message as the octets of DATA: dots doubled at the start of lines and the final dot at the end (RFC 5321 §4.5.2). Changes nothing
 * else: line ends must be CRLF already.
 */

const CR = 13
const LF = 10
const DOT = 46
const DOT_BYTES = Buffer.from('.')
const DOT_AFTER_CRLF = Buffer.from('\r\n.')
const END_AFTER_CRLF = Buffer.from('.\r\n')
const END_OF_UNFINISHED_LINE = Buffer.from('\r\n.\r\n')

/** Enough for most messages to leave in one write, little enough that the time for a block tells a slow peer from a dead one. */
export const defaultBlockBytes = 64 * 1024

/**
 * The blocks to write after a 354, the last of which ends in CRLF, dot, CRLF. A last line without CRLF gets one; an empty message is the final
 * dot alone. Blocks without a dot to double are views of `message`, except the last.
 *
 * @param blockBytes how much of the message goes into one block, before doubling
 */
export function* dataBlocks(
  message: Uint8Array,
  blockBytes: number = defaultBlockBytes,
): Generator<Uint8Array, void, void> {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const length = bytes.length
  let nextDot = bytes[0] === DOT ? 0 : dotAfter(bytes, 0)
  let start = 0
  do {
    const end = Math.min(start + blockBytes, length)
    const isLast = end === length
    if (nextDot >= end && !isLast) yield bytes.subarray(start, end)
    else {
      const pieces: Uint8Array[] = []
      let from = start
      while (nextDot < end) {
        pieces.push(bytes.subarray(from, nextDot), DOT_BYTES)
        from = nextDot
        nextDot = dotAfter(bytes, nextDot)
      }
      pieces.push(bytes.subarray(from, end))
      if (isLast) pieces.push(endsWithCrlf(bytes) ? END_AFTER_CRLF : END_OF_UNFINISHED_LINE)
      yield Buffer.concat(pieces)
    }
    start = end
  } while (start < length)
}

/** Where the next dot at the start of a line is after the offset `from`; Infinity when there is none. */
function dotAfter(bytes: Buffer, from: number): number {
  const found = bytes.indexOf(DOT_AFTER_CRLF, from)
  return found === -1 ? Number.POSITIVE_INFINITY : found + 2
}

function endsWithCrlf(bytes: Buffer): boolean {
  const length = bytes.length
  return length === 0 || (bytes[length - 1] === LF && bytes[length - 2] === CR)
}
