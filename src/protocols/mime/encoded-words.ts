/**
 * @module Decodes encoded words of a header (RFC 2047, RFC 2231 §5) to Unicode, as leniently as mail programs do and in
 * linear time. Adjacent words in one charset are decoded together, because many senders split a character between two
 * words. Never throws.
 */
import { decodeText, isSameCharset } from './charset.ts'
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

function decodeB(encoded: string): Uint8Array {
  const decoder = createTransferDecoder('base64')
  return Buffer.concat([decoder.push(Buffer.from(encoded)), decoder.end()])
}

const SPACE = 0x20
const EQUALS = 0x3d
const UNDERSCORE = 0x5f
const HEX_PAIR = /^[\dA-Fa-f]{2}$/

/** §4.2; a `=` is literal when no two hex digits follow it. */
function decodeQ(encoded: string): Uint8Array {
  const bytes = Buffer.from(encoded)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    const pair = byte === EQUALS ? bytes.toString('latin1', at + 1, at + 3) : ''
    if (HEX_PAIR.test(pair)) {
      bytes[length++] = Number.parseInt(pair, 16)
      at += 2
    } else bytes[length++] = byte === UNDERSCORE ? SPACE : byte
  }
  return bytes.subarray(0, length)
}
