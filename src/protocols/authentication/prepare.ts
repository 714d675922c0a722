/**
 * @module Prepares a message for signature verification: limits the cost of its header and restores CRLF line ends. The
 * verifier's work grows with the square of folded lines and of white space in a signature, so both are limited here.
 * Never changes its input.
 */

import { asBuffer, type MessageSource, readPrefix } from '../mime/source.ts'

export type PreparedMessage =
  /**
   * `pieces` yields the message in pieces that end anywhere. Without a signature to verify it yields the header only.
   */
  | { readonly kind: 'ok'; readonly pieces: () => Iterable<Buffer> }
  /** The header exceeds the limits: no signature is verified. */
  | { readonly kind: 'refused'; readonly reason: string }

const MAX_HEADER_BYTES = 256 * 1024
const MAX_HEADER_LINES = 5_000
/** Signatures after the first ones, from the top, are skipped. */
const MAX_SIGNATURES = 10
/** Signatures over only part of the body (`l=`): each makes the verifier hash the canonical body again. */
const MAX_PARTIAL_SIGNATURES = 2
/** A longer signature field is skipped: real ones have at most 2 KiB. */
const MAX_SIGNATURE_BYTES = 4 * 1024
/** A signature field with such a run of white space is skipped. */
const LONG_GAP = /\s{200}/

const LF = 0x0a
const CR = 0x0d
const SIGNATURE_NAMES: ReadonlySet<string> = new Set([
  'dkim-signature',
  'arc-seal',
  'arc-message-signature',
  'arc-authentication-results',
])
/** `l=`, anywhere a tag may begin. */
const PARTIAL = /[:;]\s*l\s*=/
/** RFC 5322 §3.6.8 and §4.5.8: a name and its colon, which may be on the next line. */
const FIELD = /^[!-9;-~]+[ \t]*:/
const NAME_ALONE = /^[!-9;-~]+[ \t]*$/
const COLON_FIRST = /^[ \t]*:/

/**
 * Signatures cover CRLF line ends (RFC 6376 §5.3), so a lone line feed becomes CRLF. Removes only signature fields from
 * the header, so what the other signatures cover stays the same.
 */
export function prepareMessage(source: MessageSource): PreparedMessage {
  const start = normaliseLineEnds(asBuffer(readPrefix(source, MAX_HEADER_BYTES)), 0)
  const end = findHeaderEnd(start)
  if (end > MAX_HEADER_BYTES) return { kind: 'refused', reason: 'the header is too large' }
  const header = start.toString('latin1', 0, end)
  const lines = header.split('\r\n')
  if (lines.length > MAX_HEADER_LINES) return { kind: 'refused', reason: 'the header has too many lines' }
  const fields = splitFields(lines)
  let signatures = 0
  let partial = 0
  let isSigned = false
  const kept = fields.filter((field) => {
    const name = parseFieldName(field)
    if (!SIGNATURE_NAMES.has(name)) return true
    if (field.length > MAX_SIGNATURE_BYTES || LONG_GAP.test(field)) return false
    if (PARTIAL.test(field) && ++partial > MAX_PARTIAL_SIGNATURES) return false
    if (name === 'dkim-signature' && ++signatures > MAX_SIGNATURES) return false
    isSigned = true
    return true
  })
  const head = kept.length === fields.length ? start.subarray(0, end) : Buffer.from(kept.join('\r\n'), 'latin1')
  if (!isSigned) return { kind: 'ok', pieces: () => [Buffer.concat([head, Buffer.from('\r\n\r\n')])] }
  return { kind: 'ok', pieces: () => generateMessage(head, source, end) }
}

/** Yields a header, then the message without its first `skipBytes` octets. */
function* generateMessage(head: Buffer, source: MessageSource, skipBytes: number): Generator<Buffer> {
  yield head
  let left = skipBytes
  let last = 0
  for (const chunk of source.chunks()) {
    const normal = normaliseLineEnds(asBuffer(chunk), last)
    last = chunk.at(-1) ?? last
    const body = normal.subarray(left)
    left = Math.max(0, left - normal.length)
    if (body.length > 0) yield body
  }
}

/**
 * Splits fields as the verifier does: any line that does not start a field belongs to the field before it, with or
 * without leading white space. If we split one of its fields in two, the limits would not apply to the second half.
 */
function splitFields(lines: readonly string[]): string[] {
  const fields: string[][] = []
  for (const [index, line] of lines.entries()) {
    const isStart = FIELD.test(line) || (NAME_ALONE.test(line) && COLON_FIRST.test(lines[index + 1] ?? ''))
    const last = fields.at(-1)
    if (last === undefined || isStart) fields.push([line])
    else last.push(line)
  }
  return fields.map((field) => field.join('\r\n'))
}

/** Returns the name in lower case, without a fold before the colon. */
const parseFieldName = (field: string): string => (/^[^:]+/.exec(field)?.[0] ?? '').trim().toLowerCase()

/** Returns the end of the header: the CRLF before the empty line, or the end of the bytes when there is none. */
function findHeaderEnd(bytes: Buffer): number {
  if (bytes[0] === CR && bytes[1] === LF) return 0
  const end = bytes.indexOf('\r\n\r\n')
  return end === -1 ? bytes.length : end
}

/**
 * Puts a carriage return before each lone line feed; returns the same bytes when there is none.
 * @param before the octet before the bytes
 */
function normaliseLineEnds(bytes: Buffer, before: number): Buffer {
  let bare = 0
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) {
    if ((at === 0 ? before : bytes[at - 1]) !== CR) bare++
  }
  if (bare === 0) return bytes
  const result = Buffer.allocUnsafe(bytes.length + bare)
  let to = 0
  for (let at = 0; at < bytes.length; at++) {
    const octet = bytes[at] ?? 0
    if (octet === LF && (at === 0 ? before : bytes[at - 1]) !== CR) result[to++] = CR
    result[to++] = octet
  }
  return result
}
