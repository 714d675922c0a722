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

/**
 * White space that is longer than this is kept even at the end of a line, because otherwise all of it would have to be
 * buffered.
 */
const MAX_CARRIED_SPACE = 64 * 1024
/** A soft line break, with at most as much white space as is likely; an octet; or the white space at the end of a line. */
const QUOTED = /=[ \t]{0,100}\r?\n|=([\dA-Fa-f]{2})|(?<![ \t])[ \t]+(?=\r?\n)/g
const LAST_QUOTED = /=[ \t]{0,100}$|(?<![ \t])[ \t]+$/

/** Where the white space begins at the end of a text that may turn out to end a line. */
function findBlankEnd(text: string): number {
  let at = text.length
  while (at > 0 && ' \t\r'.includes(text.charAt(at - 1))) at--
  return at
}

/**
 * RFC 2045 §6.7: white space at the end of a line was added in transit and is removed; a `=` is literal when no two hex
 * digits follow it.
 */
function createQuotedPrintableDecoder(): TransferDecoder {
  let carried = ''
  const decode = (text: string): Uint8Array =>
    Buffer.from(
      text.replace(QUOTED, (_, hex?: string) =>
        hex === undefined ? '' : String.fromCharCode(Number.parseInt(hex, 16)),
      ),
      'latin1',
    )
  return {
    push(bytes) {
      const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
      // Small pieces of nothing else are not scanned again and again.
      if (carried !== '' && carried.length + piece.length <= MAX_CARRIED_SPACE && findBlankEnd(piece) === 0) {
        carried += piece
        return NOTHING
      }
      const text = carried + piece
      const solid = findBlankEnd(text)
      const equals = text.indexOf('=', Math.max(0, solid - 2))
      const known = equals === -1 ? solid : equals
      const end = text.length - known > MAX_CARRIED_SPACE ? text.length : known
      carried = text.slice(end)
      return decode(text.slice(0, end))
    },
    end: () => decode(carried.replace(LAST_QUOTED, '')),
  }
}
