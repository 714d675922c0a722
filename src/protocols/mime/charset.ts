/** @module Text of strangers in whatever charset they say, or do not say, to Unicode. Never fails: what cannot be read is guessed. */
import libcharset from 'libmime/lib/charset.js'

/** Names that say nothing about octets above 127, or that senders write without meaning them. */
const SAYS_NOTHING =
  /^(?:us-?ascii|ascii|ansi_x3\.4-19(?:68|86)|x-unknown|unknown-8bit|unknown|default|none|7bit|8bit|binary)$/
const LONGEST_NAME = 60
/** Where a page says its own charset. */
const META_BYTES = 1024

/**
 * Octets as well-formed text. UTF-8 that was declared keeps what is valid of it; when nothing usable was declared, text that is not UTF-8 is taken
 * for windows-1252, as mail programs do.
 * @param charset as declared; null: it was not
 */
export function decodeText(bytes: Uint8Array, charset: string | null): string {
  return decode(bytes, nameOf(charset)).toWellFormed()
}

/** As `decodeText`; without a charset what the page says in its first kilobyte decides, unless it is UTF-8. */
export function decodeHtml(bytes: Uint8Array, charset: string | null): string {
  if (nameOf(charset) !== undefined) return decodeText(bytes, charset)
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, META_BYTES)).toString('latin1')
  const own = /<meta[^>]{0,200}charset\s{0,10}=\s{0,10}["']?([A-Za-z0-9_-]{2,40})/i.exec(start)?.[1]
  return utf8(bytes) ?? decodeText(bytes, own ?? null)
}

function decode(bytes: Uint8Array, name: string | undefined): string {
  if (name === undefined) return guess(bytes)
  if (name === 'utf-8') return new TextDecoder('utf-8').decode(bytes)
  // The byte order mark knows better than the name, of which the one order is only a guess.
  const isBigEndian = name.startsWith('utf-16') && bytes[0] === 0xfe && bytes[1] === 0xff
  const native = decoderOf(isBigEndian ? 'utf-16be' : name)
  if (native) return native.decode(bytes)
  // It takes nothing but a Buffer for octets.
  const text = libcharset.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), name)
  // Either it is broken, or the name is unknown and was read as UTF-8.
  return text.includes('\ufffd') ? guess(bytes) : text
}

const guess = (bytes: Uint8Array): string => utf8(bytes) ?? new TextDecoder('windows-1252').decode(bytes)

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The name in lower case; undefined: none that says anything. */
function nameOf(charset: string | null): string | undefined {
  // RFC 2231 §5: a language may follow.
  const given = (charset ?? '')
    .toLowerCase()
    .replace(/\*.*$/s, '')
    .replaceAll(/["'\s]/g, '')
  if (given === '' || given.length > LONGEST_NAME || SAYS_NOTHING.test(given)) return undefined
  return libcharset.normalizeCharset(given).toLowerCase()
}

function decoderOf(name: string): TextDecoder | undefined {
  try {
    // The type knows fewer names than the decoder.
    return new TextDecoder(name as 'utf-8')
  } catch {
    return undefined
  }
}
