/**
 * @module Decodes received text to Unicode. Never fails: without a usable charset declaration, the charset is guessed.
 */
import iconv from 'iconv-lite'
import libcharset from 'libmime/lib/charset.js'

/**
 * Declared names to ignore: some say nothing about octets above 127, and senders declare the others whatever the
 * charset is.
 */
const MEANINGLESS =
  /^(?:us-?ascii|ascii|ansi_x3\.4-19(?:68|86)|x-unknown|unknown-8bit|unknown|default|none|7bit|8bit|binary)$/
const MAX_NAME_LENGTH = 60
/** Octets at the beginning of an HTML page within which the page declares its charset. */
const META_BYTES = 1024

/**
 * Decodes octets to well-formed text. In text declared as UTF-8, keeps the valid part. Without a usable declaration,
 * text that is not UTF-8 is read as windows-1252, as mail programs do.
 * @param charset as declared; null: not declared
 */
export function decodeText(bytes: Uint8Array, charset: string | null): string {
  return decode(bytes, normaliseCharset(charset)).toWellFormed()
}

/**
 * Decodes HTML like `decodeText`. But if no charset is declared, and the page is not UTF-8, uses the charset that the
 * page declares in its first kilobyte.
 */
export function decodeHtml(bytes: Uint8Array, charset: string | null): string {
  if (normaliseCharset(charset) !== undefined) return decodeText(bytes, charset)
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, META_BYTES)).toString('latin1')
  const own = /<meta[^>]{0,200}charset\s{0,10}=\s{0,10}["']?([A-Za-z0-9_-]{2,40})/i.exec(start)?.[1]
  return decodeUtf8(bytes) ?? decodeText(bytes, own ?? null)
}

/** Octets that need decoding in a header: beyond ASCII, or the escape that switches alphabets in ISO-2022. */
const RAW_OCTETS = /[\x1b\x80-\xff]/
/** Characters of header syntax. A charset that decodes them differently, such as UTF-16, is not used for a header. */
const HEADER_SYNTAX = Buffer.from('A+AGE-:;<a@b>"=?Q?_?= \t')

/**
 * Decodes unencoded text of a header, which RFC 5322 forbids but many senders use: as UTF-8 if valid (RFC 6532), else
 * in the charset of the body, else as windows-1252.
 * @param octets one character per octet
 * @param bodyCharset as declared; null: not declared
 */
export function decodeHeaderText(octets: string, bodyCharset: string | null): string {
  if (!RAW_OCTETS.test(octets)) return octets
  const bytes = Buffer.from(octets, 'latin1')
  const name = normaliseCharset(bodyCharset)
  // Text with ISO-2022 escapes is not tried as UTF-8, because it is valid UTF-8 too.
  const isEscaped = octets.includes('\x1b') && name?.startsWith('iso-2022-') === true
  const known = isEscaped ? undefined : decodeUtf8(bytes)
  if (known !== undefined) return known
  const isUsable = name !== undefined && name !== 'utf-8' && decode(HEADER_SYNTAX, name) === HEADER_SYNTAX.toString()
  return (isUsable ? decode(bytes, name) : decodeGuessed(bytes)).toWellFormed()
}

/** Whether a declared charset says anything about octets above 127. */
export const isMeaningfulCharset = (charset: string): boolean => normaliseCharset(charset) !== undefined

/** Whether the runtime knows a declared charset, if it says anything. */
export const isKnownCharset = (charset: string): boolean =>
  findDecoder(normaliseCharset(charset) ?? 'utf-8') !== undefined

/** Whether two names refer to the same charset. */
export const isSameCharset = (one: string, other: string): boolean =>
  one === other || normaliseCharset(one) === normaliseCharset(other)

function decode(bytes: Uint8Array, name: string | undefined): string {
  if (name === undefined) return decodeGuessed(bytes)
  if (name === 'utf-8') return new TextDecoder('utf-8').decode(bytes)
  // A byte order mark is more reliable than the declared name, which only implies a byte order.
  const isBigEndian = name.startsWith('utf-16') && bytes[0] === 0xfe && bytes[1] === 0xff
  const native = findDecoder(isBigEndian ? 'utf-16be' : name)
  if (native) return native.decode(native.encoding === 'iso-2022-jp' ? removeIdleEscapes(bytes) : bytes)
  const sevenBitDecoder = SEVEN_BIT_DECODERS[name]
  if (sevenBitDecoder) return sevenBitDecoder(bytes)
  // libmime accepts octets only as a Buffer.
  const text = libcharset.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), name)
  // Either the text is invalid, or libmime does not know the name and read the text as UTF-8.
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

/** Returns the canonical name of a charset in lower case; undefined when the name says nothing. */
function normaliseCharset(charset: string | null): string | undefined {
  // RFC 2231 §5: a language may follow the charset.
  const declared = (charset ?? '')
    .toLowerCase()
    .replace(/\*.*$/s, '')
    .replaceAll(/["'\s]/g, '')
  if (declared === '' || declared.length > MAX_NAME_LENGTH || MEANINGLESS.test(declared)) return undefined
  return libcharset.normalizeCharset(declared).toLowerCase()
}

function findDecoder(name: string): TextDecoder | undefined {
  try {
    // The type declares fewer names than the decoder knows.
    return new TextDecoder(name as 'utf-8')
  } catch {
    return undefined
  }
}

/**
 * Removes ISO-2022-JP escapes that another escape follows, as where encoded words of a subject were joined. The decoder
 * would treat such escapes as an error.
 */
function removeIdleEscapes(bytes: Uint8Array): Uint8Array {
  const octets = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  return Buffer.from(octets.replace(/\x1b(?:\([BJI]|\$[@B])(?=\x1b)/g, ''), 'latin1')
}

/**
 * Decodes UTF-7. libmime refuses UTF-7, because a filter that reads only ASCII misses markup in it. No such filter runs
 * before us: the text goes to the account as JSON, and a sender that declares UTF-7 does use it.
 */
function decodeUtf7(bytes: Uint8Array): string {
  const text = iconv.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), 'utf-7')
  return text.includes('\ufffd') ? decodeGuessed(bytes) : text
}

/**
 * Decoders of 7-bit charsets that neither the runtime nor libmime decodes. The Korean and Chinese charsets have the
 * same characters as an EUC charset of 8 bits.
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
/** The octets after the escape character that announce Korean text: `$)C`. */
const KOREAN_DESIGNATOR = [0x24, 0x29, 0x43]

/** RFC 1557: Korean text is between shift-out and shift-in. */
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

/**
 * RFC 1843: Chinese text is between `~{` and `~}` and ends at the line end; `~~` is a tilde; a tilde before a line end
 * joins two lines.
 */
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

/** Sets the high bit, except in controls and spaces, which have no counterpart in the upper half. */
const toUpperHalf = (byte: number): number => (byte > 0x20 && byte < 0x7f ? byte | 0x80 : byte)
