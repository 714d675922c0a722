/**
 * @module Prepares the input of `parse.ts`'s splitter, so that a hostile message costs neither too much memory nor
 * time: passes only header fields about the content, and rejects long runs of carriage returns.
 */
import type { Head } from './header-fields.ts'
import { UnparseableError } from './parsed.ts'
import { asBuffer, type MessageSource } from './source.ts'

/**
 * Yields only the data that the splitter needs: the header fields about the content, a blank line (even if the message
 * lacks it), and the body. Other fields are left out, because the splitter uses a hundred times the octets of each
 * field.
 */
export function* generateSplitterInput(
  source: MessageSource,
  start: Uint8Array,
  { end, isClosed, contentLines }: Head,
): Generator<Buffer> {
  const hasTooMany = createCarriageReturnCheck()
  for (const [from, to] of contentLines) {
    const line = asBuffer(start.subarray(from, to))
    checkCarriageReturns(hasTooMany(line))
    yield line
    if (line.at(-1) !== LF) yield CRLF
  }
  if (!isClosed) yield CRLF
  let position = 0
  for (const chunk of source.chunks()) {
    const body = asBuffer(chunk.subarray(Math.max(0, end - position)))
    position += chunk.length
    checkCarriageReturns(hasTooMany(body))
    if (body.length > 0) yield body
  }
}

const LF = 0x0a
const CRLF = Buffer.from('\r\n')

function checkCarriageReturns(hasTooMany: boolean): void {
  if (hasTooMany) throw new UnparseableError('The message has more than 1,000 carriage returns in a row.')
}

const MAX_CARRIAGE_RETURNS = 1000
const CR = 0x0d
const LONG_RUN = Buffer.alloc(MAX_CARRIAGE_RETURNS + 1, CR)

/**
 * Returns a function that checks for more than 1,000 carriage returns in a row, because the splitter scans a header
 * once for each of them.
 */
function createCarriageReturnCheck(): (chunk: Buffer) => boolean {
  /** Number of carriage returns at the end of the data so far. */
  let run = 0
  return (chunk) => {
    let leading = 0
    while (chunk[leading] === CR) leading++
    if (run + leading > MAX_CARRIAGE_RETURNS || chunk.includes(LONG_RUN)) return true
    let end = chunk.length
    while (chunk[end - 1] === CR) end--
    run = end === 0 ? run + leading : chunk.length - end
    return false
  }
}
