/** @module Text of strangers in whatever charset they say, or do not say, to Unicode. Never fails: what cannot be read is guessed. */
import iconv from 'iconv-lite'
import libcharset from 'libmime/lib/charset.js'

/** Names that say nothing about octets above 127, or that senders write without meaning them. */
const MEANINGLESS =
  /^(?:us-?ascii|ascii|ansi_x3\.4-19(?:68|86)|x-unknown|unknown-8bit|unknown|default|none|7bit|8bit|binary)$/
const MAX_NAME_LENGTH = 60
/** Where a page says its own charset. */
const META_BYTES = 1024

/**
 * Octets as well-formed text. UTF-8 that was declared keeps what is valid of it; when nothing usable was declared, text that is not UTF-8 is taken
 * for windows-1252, as mail programs do.
 * @param charset as declared; null: it was not
 */
export function decodeText(bytes: Uint8Array, charset: string | null): string {
  return decode(bytes, normaliseCharset(charset)).toWellFormed()
}

/** As `decodeText`; without a charset what the page says in its first kilobyte decides, unless it is UTF-8. */
export function decodeHtml(bytes: Uint8Array, charset: string | null): string {
  if (normaliseCharset(charset) !== undefined) return decodeText(bytes, charset)
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, META_BYTES)).toString('latin1')
  const own = /<meta[^>]{0,200}charset\s{0,10}=\s{0,10}["']?([A-Za-z0-9_-]{2,40})/i.exec(start)?.[1]
  return decodeUtf8(bytes) ?? decodeText(bytes, own ?? null)
}

/** Octets of a header that no header has unencoded: beyond ASCII, or the escape with which ISO-2022 begins another alphabet. */
const RAW_OCTETS = /[\x1b\x80-\xff]/
/** What a header and its encoded words are made of; a charset that reads it otherwise, such as UTF-16, is not that of a header. */
const HEADER_SYNTAX = Buffer.from('A+AGE-:;<a@b>"=?Q?_?= \t')

/**
 * Unencoded text of a header, which RFC 5322 does not allow and many send: UTF-8 when it is (RFC 6532), else the charset of the body, else windows-1252.
 * @param octets one character per octet
 * @param bodyCharset as declared; null: none was
 */
export function decodeHeaderText(octets: string, bodyCharset: string | null): string {
  if (!RAW_OCTETS.test(octets)) return octets
  const bytes = Buffer.from(octets, 'latin1')
  const name = normaliseCharset(bodyCharset)
  // Text of ISO-2022 is valid UTF-8 as well.
  const isEscaped = octets.includes('\x1b') && name?.startsWith('iso-2022-') === true
  const known = isEscaped ? undefined : decodeUtf8(bytes)
  if (known !== undefined) return known
  const isUsable = name !== undefined && name !== 'utf-8' && decode(HEADER_SYNTAX, name) === HEADER_SYNTAX.toString()
  return (isUsable ? decode(bytes, name) : decodeGuessed(bytes)).toWellFormed()
}

/** Whether a declared charset says anything about octets above 127. */
export const isMeaningfulCharset = (charset: string): boolean => normaliseCharset(charset) !== undefined

/** Whether two names are those of one charset. */
export const isSameCharset = (one: string, other: string): boolean =>
  one === other || normaliseCharset(one) === normaliseCharset(other)

function decode(bytes: Uint8Array, name: string | undefined): string {
  if (name === undefined) return decodeGuessed(bytes)
  if (name === 'utf-8') return new TextDecoder('utf-8').decode(bytes)
  // The byte order mark knows better than the name, of which the one order is only a guess.
  const isBigEndian = name.startsWith('utf-16') && bytes[0] === 0xfe && bytes[1] === 0xff
  const native = findDecoder(isBigEndian ? 'utf-16be' : name)
  if (native) return native.decode(native.encoding === 'iso-2022-jp' ? removeIdleEscapes(bytes) : bytes)
  const sevenBitDecoder = SEVEN_BIT_DECODERS[name]
  if (sevenBitDecoder) return sevenBitDecoder(bytes)
  // It takes nothing but a Buffer for octets.
  const text = libcharset.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), name)
  // Either it is broken, or the name is unknown and was read as UTF-8.
  return text.includes('\ufffd') ? decodeGuessed(bytes) : text
}

const decodeGuessed = (bytes: Uint8Array): string => decodeUtf8(bytes) ?? new TextDecoder('windows-1252').decode(bytes)

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The name in lower case; undefined: none that says anything. */
function normaliseCharset(charset: string | null): string | undefined {
  // RFC 2231 §5: a language may follow.
  const declared = (charset ?? '')
    .toLowerCase()
    .replace(/\*.*$/s, '')
    .replaceAll(/["'\s]/g, '')
  if (declared === '' || declared.length > MAX_NAME_LENGTH || MEANINGLESS.test(declared)) return undefined
  return libcharset.normalizeCharset(declared).toLowerCase()
}

function findDecoder(name: string): TextDecoder | undefined {
  try {
    // The type knows fewer names than the decoder.
    return new TextDecoder(name as 'utf-8')
  } catch {
    return undefined
  }
}

/**
 * Without the escapes of ISO-2022-JP that another follows: where two texts were joined, such as the encoded words of a subject. The decoder takes them
 * for an error.
 */
function removeIdleEscapes(bytes: Uint8Array): Uint8Array {
  const octets = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  return Buffer.from(octets.replace(/\x1b(?:\([BJI]|\$[@B])(?=\x1b)/g, ''), 'latin1')
}

/**
 * libmime refuses UTF-7, because a filter that reads only ASCII misses markup in it. No such filter runs before us: the
 * text goes to the account as JSON, and a sender that declares UTF-7 means it.
 */
function decodeUtf7(bytes: Uint8Array): string {
  const text = iconv.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), 'utf-7')
  return text.includes('\ufffd') ? decodeGuessed(bytes) : text
}

/**
 * Charsets of 7 bits that neither the runtime nor libmime decodes. The Korean and Chinese ones have the same characters
 * as an EUC charset of 8 bits.
 */
const SEVEN_BIT_DECODERS: Readonly<Record<string, (bytes: Uint8Array) => string>> = {
  'utf-7': decodeUtf7,
  'unicode-1-1-utf-7': decodeUtf7,
  'iso-2022-kr': (bytes) => new TextDecoder('euc-kr').decode(toEucKr(bytes)),
  csiso2022kr: (bytes) => new TextDecoder('euc-kr').decode(toEucKr(bytes)),
  'hz-gb-2312': (bytes) => new TextDecoder('gbk').decode(toEucCn(bytes)),
  hz: (bytes) => new TextDecoder('gbk').decode(toEucCn(bytes)),
}

const LF = 0x0a
const SHIFT_OUT = 0x0e
const SHIFT_IN = 0x0f
const ESC = 0x1b
const CR = 0x0d
const TILDE = 0x7e
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d
/** Behind an escape: `$)C`. */
const KOREAN_DESIGNATOR = [0x24, 0x29, 0x43]

/** RFC 1557: Korean stands between shift-out and shift-in. */
function toEucKr(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(bytes.length)
  let length = 0
  let isKorean = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte === ESC && KOREAN_DESIGNATOR.every((octet, index) => bytes[at + 1 + index] === octet))
      at += KOREAN_DESIGNATOR.length
    else if (byte === SHIFT_OUT || byte === SHIFT_IN) isKorean = byte === SHIFT_OUT
    else out[length++] = isKorean ? toUpperHalf(byte) : byte
  }
  return out.subarray(0, length)
}

/** RFC 1843: Chinese stands between `~{` and `~}`, and ends with its line; `~~` is a tilde, a tilde before a line end joins two lines. */
function toEucCn(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(bytes.length)
  let length = 0
  let isChinese = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    const escaped = byte === TILDE ? bytes[at + 1] : undefined
    if (escaped === OPENING_BRACE || escaped === CLOSING_BRACE) {
      isChinese = escaped === OPENING_BRACE
      at++
    } else if (isChinese && byte !== LF) out[length++] = toUpperHalf(byte)
    else if (escaped === LF) at++
    else if (escaped === CR && bytes[at + 2] === LF) at += 2
    else {
      if (escaped === TILDE) at++
      isChinese = false
      out[length++] = byte
    }
  }
  return out.subarray(0, length)
}

/** Controls and spaces have no other half. */
const toUpperHalf = (byte: number): number => (byte > 0x20 && byte < 0x7f ? byte | 0x80 : byte)
