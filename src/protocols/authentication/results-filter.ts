/**
 * @module Removes Authentication-Results fields that forge our name from a message as it streams through (RFC 8601 §5).
 * Holds at most one such field at a time, so memory depends on the size of neither the message nor its header. Passes
 * everything else unchanged.
 */
import { isForgedResult } from './results-header.ts'

const NAME = 'authentication-results'
/** Maximum octets of a field that are examined. This is enough, because the claimed authserv-id comes first. */
const MAX_HELD_BYTES = 64 * 1024

const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32

/**
 * Yields the message without forged fields.
 * @param hostname our authserv-id
 */
export function* removeForgedResults(chunks: Iterable<Uint8Array>, hostname: string): Generator<Uint8Array> {
  const filter = createFilter(hostname)
  for (const chunk of chunks) yield* filter.push(chunk)
  yield* filter.end()
}

function createFilter(hostname: string) {
  let held: Buffer = Buffer.alloc(0)
  let isInHeader = true
  let isAtLineStart = true
  /** Whether the current field is being removed. */
  let isDropping = false

  const scan = (bytes: Buffer, isLast: boolean): Uint8Array[] => {
    const pieces: Uint8Array[] = []
    let keptFrom = 0
    const passUntil = (end: number): void => {
      if (!isDropping && end > keptFrom) pieces.push(bytes.subarray(keptFrom, end))
      keptFrom = end
    }
    const hold = (from: number): Uint8Array[] => {
      passUntil(from)
      held = bytes.subarray(from)
      return pieces
    }
    held = Buffer.alloc(0)
    let at = 0
    while (at < bytes.length && isInHeader) {
      if (isAtLineStart && !isFoldingSpace(bytes[at])) {
        if (bytes[at] === CR && at + 1 === bytes.length && !isLast) return hold(at)
        passUntil(at)
        isDropping = false
        isInHeader = bytes[at] !== LF && !(bytes[at] === CR && bytes[at + 1] === LF)
        if (!isInHeader) break
        const name = readName(bytes, at)
        if (name !== NAME && NAME.startsWith(name) && at + name.length === bytes.length && !isLast) return hold(at)
        if (name === NAME) {
          const end = findFieldEnd(bytes, at)
          if (end === undefined && !isLast && bytes.length - at < MAX_HELD_BYTES) return hold(at)
          const readEnd = Math.min(end ?? bytes.length, at + MAX_HELD_BYTES)
          isDropping = isForged(bytes.toString('utf8', at, readEnd), hostname)
        }
      }
      isAtLineStart = false
      const end = findLineEnd(bytes, at)
      if (end === undefined) {
        // The next octet shows whether a line feed follows the CR, and so where the next line begins.
        if (bytes[bytes.length - 1] === CR && !isLast) return hold(bytes.length - 1)
        break
      }
      isAtLineStart = true
      at = end
    }
    passUntil(bytes.length)
    return pieces
  }

  return {
    /** Returns the pieces that may pass, of this chunk and of the octets held back before. */
    push: (chunk: Uint8Array): Uint8Array[] => (isInHeader ? scan(Buffer.concat([held, chunk]), false) : [chunk]),
    end: (): Uint8Array[] => (held.length > 0 ? scan(held, true) : []),
  }
}

const isFoldingSpace = (octet: number | undefined): boolean => octet === SPACE || octet === TAB

/**
 * Returns as many letters of a field as NAME has, in lower case; only the first letter when it differs from that of
 * NAME.
 */
function readName(bytes: Buffer, at: number): string {
  const first = String.fromCharCode(bytes[at] ?? 0).toLowerCase()
  return first === NAME.charAt(0) ? bytes.toString('latin1', at, at + NAME.length).toLowerCase() : first
}

function isForged(field: string, hostname: string): boolean {
  const colon = field.indexOf(':')
  return colon >= 0 && isForgedResult(field.slice(0, colon), field.slice(colon + 1), hostname)
}

/**
 * Returns the position after the line end: CRLF, LF, or a lone CR, after which some readers would see a new field.
 * Undefined when no line end follows, or when the last octet is a CR.
 */
function findLineEnd(bytes: Buffer, from: number): number | undefined {
  for (let at = from; at < bytes.length; at++) {
    if (bytes[at] === LF) return at + 1
    if (bytes[at] !== CR) continue
    if (at + 1 === bytes.length) return undefined
    return bytes[at + 1] === LF ? at + 2 : at + 1
  }
  return undefined
}

/**
 * Returns the end of the field: the position after a line end that no white space follows (RFC 5322 §2.2.3). Undefined
 * when the end has not arrived yet.
 */
function findFieldEnd(bytes: Buffer, from: number): number | undefined {
  for (let end = findLineEnd(bytes, from); end !== undefined; end = findLineEnd(bytes, end)) {
    if (end === bytes.length) return undefined
    if (!isFoldingSpace(bytes[end])) return end
  }
  return undefined
}
