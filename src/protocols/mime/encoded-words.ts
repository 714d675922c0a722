/**
 * @module Decodes encoded words of a header (RFC 2047, RFC 2231 §5) to Unicode, as leniently as mail programs do and in
 * linear time. Adjacent words in one charset are decoded together, because many senders split a character between two
 * words. Never throws.
 */
import { decodeText, isKnownCharset, isSameCharset } from './charset.ts'
import { createTransferDecoder } from './transfer-encoding.ts'

/**
 * Matches an encoded word. Also accepts an empty encoded text, and a text with spaces, both of which the RFC forbids.
 */
const WORD = /=\?([\w.:+*-]{1,80})\?([BbQq])\?([^?]*)\?=/g
const ONLY_SPACE = /^[ \t\r\n]*$/

/** Decodes the encoded words of a text; drops white space between two encoded words (§6.2). */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text
  const out: string[] = []
  /** Words that have been found but not decoded yet. */
  let charset = ''
  let pieces: Uint8Array[] = []
  let end = 0
  const flush = (): void => {
    if (pieces.length > 0) out.push(decodeText(Buffer.concat(pieces), charset))
    pieces = []
  }
  for (const match of text.matchAll(WORD)) {
    const [word, named = '', encoding = '', encoded = ''] = match
    const between = text.slice(end, match.index)
    const isAdjacent = pieces.length > 0 && ONLY_SPACE.test(between)
    if (!isAdjacent || !isSameCharset(named, charset)) flush()
    if (!isAdjacent) out.push(between)
    charset = named
    pieces.push(/b/i.test(encoding) ? decodeB(encoded) : decodeQ(encoded))
    end = match.index + word.length
  }
  flush()
  out.push(text.slice(end))
  return out.join('')
}

/** A word as §2 wants it. */
const VALID_WORD =
  /^=\?([A-Za-z][\w.:+*-]{0,40})\?(?:[Bb]\?(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=|[A-Za-z\d+/]{4})|[Qq]\?(?:[!-<>@-~]|=[\dA-Fa-f]{2})+)\?=$/
/** One more than §2 allows, because Python fills its lines. */
const MAX_WORD_LENGTH = 76
/** What an encoded word may not hide in a name, and what shows that its octets are not in its charset. */
const NEVER_IN_NAME = /[\0-\x1f\x7f-\x9f\u2028\u2029\ufffd]/

/**
 * Decodes a name that a program has encoded although it should not have. Strict, because the name may also mean what it
 * says: all that looks like an encoded word must be one, with white space around it.
 */
export function decodeName(name: string): string {
  const words = name.split(/\s+/).filter((text) => text.includes('=?') || text.includes('?='))
  const charsets = words.map((word) => (word.length > MAX_WORD_LENGTH ? undefined : VALID_WORD.exec(word)?.[1]))
  const isValid = charsets.every((charset) => charset !== undefined && isKnownCharset(charset))
  const decoded = isValid ? decodeWords(name) : name
  return NEVER_IN_NAME.test(decoded) ? name : decoded
}

function decodeB(encoded: string): Uint8Array {
  const decoder = createTransferDecoder('base64')
  return Buffer.concat([decoder.push(Buffer.from(encoded)), decoder.end()])
}

/** §4.2; a `=` is literal when no two hex digits follow it. */
function decodeQ(encoded: string): Uint8Array {
  const octets = Buffer.from(encoded).toString('latin1').replaceAll('_', ' ')
  const decoded = octets.replace(/=([\dA-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(decoded, 'latin1')
}
