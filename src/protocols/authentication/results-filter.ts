/**
 * @module Removes fields that forge our results from a message as it streams through: of authentication (RFC 8601 §5)
 * and of a check for spam. Holds at most the beginning of one field, so memory depends on the size of neither the
 * message nor its header. Passes everything else unchanged.
 */
import { isForgedResult } from './results-header.ts'

/** Maximum octets of a field that are examined. This is enough, because the claimed authserv-id comes first. */
const MAX_HELD_BYTES = 64 * 1024
/** RFC 5322 §2.2.3: a line end that no white space follows. After a lone CR some readers would see a new field. */
const FIELD_END = /(?:\r\n|\n|\r(?!\n))(?![ \t])/g
const EMPTY_LINE = /\r?\n/y

/**
 * Yields the message without forged fields.
 * @param hostname our authserv-id
 * @param isJudged as in `isForgedResult`
 */
export function* removeForgedResults(chunks: Iterable<Uint8Array>, hostname: string, isJudged = false) {
  let held: Buffer = Buffer.alloc(0)
  let isInHeader = true
  /** Whether the field that began before `held` is removed; undefined at the start of a field. */
  let isForged: boolean | undefined

  function* scan(bytes: Buffer, isLast: boolean): Generator<Uint8Array> {
    const text = bytes.toString('latin1')
    let at = 0
    while (at < bytes.length) {
      if (isForged === undefined && find(EMPTY_LINE, text, at) !== undefined) {
        isInHeader = false
        yield bytes.subarray(at)
        return
      }
      const found = find(FIELD_END, text, at)
      // Only what follows shows whether a line end at the end of the text ends the field.
      const end = isLast ? (found ?? bytes.length) : found === bytes.length ? undefined : found
      if (end === undefined && isForged === undefined && bytes.length - at < MAX_HELD_BYTES) break
      const readEnd = Math.min(end ?? bytes.length, at + MAX_HELD_BYTES)
      isForged ??= isForgedField(bytes.toString('utf8', at, readEnd), hostname, isJudged)
      const known = end ?? text.replace(/[\r\n]{1,2}$/, '').length
      if (!isForged && known > at) yield bytes.subarray(at, known)
      at = known
      if (end === undefined) break
      isForged = undefined
    }
    held = bytes.subarray(at)
  }

  for (const chunk of chunks) {
    if (isInHeader) yield* scan(Buffer.concat([held, chunk]), false)
    else yield chunk
  }
  if (isInHeader) yield* scan(held, true)
}

/** Returns where the match ends. */
function find(pattern: RegExp, text: string, from: number): number | undefined {
  pattern.lastIndex = from
  return pattern.test(text) ? pattern.lastIndex : undefined
}

function isForgedField(field: string, ...of: [hostname: string, isJudged: boolean]): boolean {
  const colon = field.indexOf(':')
  return colon >= 0 && isForgedResult(field.slice(0, colon), field.slice(colon + 1), ...of)
}
