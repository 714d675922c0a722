/**
 * @module What the splitter of `parse.ts` is given of a message, so that it costs neither the memory nor the time that a stranger may ask for: of the header
 * what says how the content is made, and no long run of carriage returns. Reads nothing of it.
 */
import type { Head } from './header-fields.ts'
import { UnparseableError } from './parsed.ts'
import { asBuffer, type MessageSource } from './source.ts'

/**
 * What the splitter needs of a message, piece by piece: of the header the fields about the content, since each field costs it a hundred times its
 * octets, then a blank line, which may be missing, and the body.
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
  for (const slice of source.chunks()) {
    const body = asBuffer(slice.subarray(Math.max(0, end - position)))
    position += slice.length
    checkCarriageReturns(hasTooMany(body))
    if (body.length > 0) yield body
  }
}

const LF = 0x0a
const CRLF = Buffer.from('\r\n')

function checkCarriageReturns(hasTooMany: boolean): void {
  if (hasTooMany)
    throw new UnparseableError('The message has more than 1,000 carriage returns in a row, which no mail has.')
}

const MAX_CARRIAGE_RETURNS = 1000
const CR = 0x0d

/** Whether more than 1,000 carriage returns stand in a row: the splitter looks at a header with many of them once for each. */
function createCarriageReturnCheck(): (slice: Uint8Array) => boolean {
  /** At the end of what was seen. */
  let run = 0
  return (slice) => {
    let leading = 0
    while (slice[leading] === CR) leading++
    if (run + leading > MAX_CARRIAGE_RETURNS) return true
    if (leading === slice.length) {
      run += leading
      return false
    }
    // A run of 1,000 has one at a multiple of 1,000.
    for (let index = MAX_CARRIAGE_RETURNS - 1; index < slice.length; index += MAX_CARRIAGE_RETURNS) {
      if (slice[index] !== CR) continue
      let start = index
      let end = index
      while (slice[start - 1] === CR) start--
      while (slice[end + 1] === CR) end++
      if (end - start + 1 > MAX_CARRIAGE_RETURNS) return true
    }
    let end = slice.length
    while (slice[end - 1] === CR) end--
    run = slice.length - end
    return false
  }
}
