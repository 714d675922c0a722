/**
 * @module Decodes the Content-Transfer-Encoding of received parts (RFC 2045 §6), as leniently as mail programs do and
 * in linear time and memory. The decoders of the libraries are not used: they take minutes for a line of spaces, and
 * a hundred times the input's memory for base64 with padding everywhere.
 */

export interface TransferDecoder {
  /** Decodes a piece and returns the octets that are certain so far; may return the argument itself. */
  push(bytes: Uint8Array): Uint8Array
  /** Ends the part and returns the remaining octets. */
  end(): Uint8Array
}

const NOTHING = new Uint8Array(0)

/** Decodes a part piece by piece; a piece may end anywhere. Passes unknown encodings through unchanged. */
export function createTransferDecoder(encoding: string): TransferDecoder {
  if (encoding === 'base64') return createBase64Decoder()
  if (encoding === 'quoted-printable') return createQuotedPrintableDecoder()
  return { push: (bytes) => bytes, end: () => NOTHING }
}

/**
 * Maximum length carried over to the next `push`: digits that do not make up three octets yet, and the white space
 * among them. Beyond it, the lenient decoder takes over.
 */
const MAX_CARRIED_LENGTH = 1024

/**
 * RFC 2045 §6.8: characters outside of the alphabet are ignored. Padding ends a run of digits, and another run may
 * follow.
 */
function createBase64Decoder(): TransferDecoder {
  let carried = ''
  let lenient: ReturnType<typeof createLenientBase64Decoder> | undefined
  const pushLenient = (text: string): Uint8Array => {
    lenient ??= createLenientBase64Decoder()
    return lenient(Buffer.from(text, 'latin1'))
  }
  return {
    push(bytes) {
      if (lenient) return lenient(bytes)
      const text = carried + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
      carried = ''
      const out = new Uint8Array(Math.ceil((text.length * 3) / 4))
      try {
        const { read, written } = out.setFromBase64(text, { lastChunkHandling: 'stop-before-partial' })
        if (text.length - read > MAX_CARRIED_LENGTH) return pushLenient(text)
        carried = text.slice(read)
        return out.subarray(0, written)
      } catch {
        return pushLenient(text)
      }
    },
    end: () => (lenient || carried === '' ? NOTHING : pushLenient(carried)),
  }
}

const EQUALS = 0x3d
const IGNORED = 255
const DIGITS = new Uint8Array(256).fill(IGNORED)
for (const [value, digit] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries())
  DIGITS[digit.charCodeAt(0)] = value
// The URL alphabet (RFC 4648 §5), which some senders use.
DIGITS[0x2d] = 62
DIGITS[0x5f] = 63

/** The fallback for base64 that `setFromBase64` rejects or that exceeds MAX_CARRIED_LENGTH; works octet by octet. */
function createLenientBase64Decoder(): (bytes: Uint8Array) => Uint8Array {
  let bits = 0
  let bitCount = 0
  return (bytes) => {
    const out = new Uint8Array(Math.ceil((bytes.length * 3) / 4) + 1)
    let length = 0
    for (const byte of bytes) {
      if (byte === EQUALS) {
        bitCount = 0
        continue
      }
      const digit = DIGITS[byte] ?? IGNORED
      if (digit === IGNORED) continue
      bits = ((bits << 6) | digit) & 0xffff
      bitCount += 6
      if (bitCount >= 8) {
        bitCount -= 8
        out[length++] = (bits >> bitCount) & 0xff
      }
    }
    return out.slice(0, length)
  }
}

const LF = 0x0a
const CR = 0x0d

/**
 * A run of white space that is longer than this is kept even at the end of a line, because otherwise all of it would
 * have to be buffered.
 */
const MAX_SPACE_RUN_BYTES = 64 * 1024

/**
 * RFC 2045 §6.7: white space at the end of a line was added in transit and is removed; a `=` is literal when no two hex
 * digits follow it.
 */
function createQuotedPrintableDecoder(): TransferDecoder {
  let carried: Uint8Array = NOTHING
  return {
    push(bytes) {
      const all = carried.length === 0 ? bytes : Buffer.concat([carried, bytes])
      const known = findSoftBreakStart(all)
      const certain = findTrailingSpaceStart(all, known)
      const until = certain === 0 && known > MAX_SPACE_RUN_BYTES ? known : certain
      const { out, consumed } = decodeQuotedPrintable(all, until, false)
      carried = all.slice(consumed)
      return out
    },
    end: () => decodeQuotedPrintable(carried, carried.length, true).out,
  }
}

/** Returns the position of a trailing `=` that may begin a soft line break whose end has not arrived. */
function findSoftBreakStart(bytes: Uint8Array): number {
  const first = bytes.indexOf(EQUALS, Math.max(0, bytes.length - MAX_SOFT_BREAK_LENGTH - 2))
  return first === -1 ? bytes.length : first
}

/** Returns the position before trailing white space that may end a line. */
function findTrailingSpaceStart(bytes: Uint8Array, end: number): number {
  let index = end
  while (index > 0 && (bytes[index - 1] === 0x20 || bytes[index - 1] === 0x09 || bytes[index - 1] === CR)) index--
  return index
}

/**
 * @param until where decoding stops. A soft line break or escape that begins before it is read to its end; `consumed`
 * then lies beyond `until`. The next call continues at `consumed`.
 */
function decodeQuotedPrintable(
  bytes: Uint8Array,
  until: number,
  isLast: boolean,
): { readonly out: Uint8Array; readonly consumed: number } {
  const out = new Uint8Array(until)
  let length = 0
  /** Length of the output without trailing white space that was not encoded. */
  let solidLength = 0
  let index = 0
  for (; index < until; index++) {
    const byte = bytes[index] ?? 0
    if (byte === EQUALS) {
      const softBreak = findSoftBreakEnd(bytes, index + 1)
      if (softBreak !== undefined) {
        index = softBreak - 1
        solidLength = length
        continue
      }
      const value = parseHexPair(bytes, index + 1)
      out[length++] = value ?? byte
      if (value !== undefined) index += 2
      solidLength = length
    } else if (byte === LF || (byte === CR && bytes[index + 1] === LF)) {
      length = solidLength
      out[length++] = byte
      solidLength = length
    } else {
      out[length++] = byte
      if (byte !== 0x20 && byte !== 0x09) solidLength = length
    }
  }
  return { out: out.slice(0, isLast ? solidLength : length), consumed: index }
}

/** Maximum white space scanned after a `=`; if there is more, the `=` is literal. */
const MAX_SOFT_BREAK_LENGTH = 100

/** Returns the start of the next line when only white space and a line break follow `start`. */
function findSoftBreakEnd(bytes: Uint8Array, start: number): number | undefined {
  let index = start
  const limit = start + MAX_SOFT_BREAK_LENGTH
  while (index < limit && (bytes[index] === 0x20 || bytes[index] === 0x09)) index++
  if (index >= bytes.length) return bytes.length
  if (bytes[index] === CR && bytes[index + 1] === LF) return index + 2
  return bytes[index] === LF ? index + 1 : undefined
}

function parseHexPair(bytes: Uint8Array, index: number): number | undefined {
  const high = parseHexDigit(bytes[index] ?? 0)
  const low = parseHexDigit(bytes[index + 1] ?? 0)
  return high === undefined || low === undefined ? undefined : high * 16 + low
}

function parseHexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined
}
