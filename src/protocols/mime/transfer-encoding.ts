/**
 * @module Content-Transfer-Encoding of parts that came in (RFC 2045 §6), read as leniently as mail programs read it and in linear time and memory:
 * the decoders of the libraries take minutes for a line of spaces and a hundred times its size for base64 that is padded everywhere.
 */

/** The octets of a part. What no encoding explains is kept as it is; the result may be the argument itself. */
export function decodeTransfer(bytes: Uint8Array, encoding: string): Uint8Array {
  if (encoding === 'base64') return decodeBase64(bytes)
  if (encoding === 'quoted-printable') return decodeQuotedPrintable(bytes)
  return bytes
}

/** RFC 2045 §6.8: other characters are ignored; padding ends a run of digits, and another may follow. */
export function decodeBase64(bytes: Uint8Array): Uint8Array {
  try {
    return Uint8Array.fromBase64(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1'))
  } catch {
    return decodeBrokenBase64(bytes)
  }
}

const EQUALS = 0x3d
const IGNORED = 255
const DIGITS = new Uint8Array(256).fill(IGNORED)
for (const [value, digit] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries())
  DIGITS[digit.charCodeAt(0)] = value
// The alphabet for URLs (RFC 4648 §5), which some senders take.
DIGITS[0x2d] = 62
DIGITS[0x5f] = 63

function decodeBrokenBase64(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(Math.ceil((bytes.length * 3) / 4))
  let length = 0
  let bits = 0
  let bitCount = 0
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

const LF = 0x0a
const CR = 0x0d

/** RFC 2045 §6.7: white space at the end of a line was added on the way; `=` before anything but two hex digits stands for itself. */
export function decodeQuotedPrintable(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(bytes.length)
  let length = 0
  /** Length without white space that stands there unencoded. */
  let solidLength = 0
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] ?? 0
    if (byte === EQUALS) {
      const softBreak = softBreakEnd(bytes, index + 1)
      if (softBreak !== undefined) {
        index = softBreak - 1
        solidLength = length
        continue
      }
      const value = hexPair(bytes, index + 1)
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
  return out.slice(0, solidLength)
}

/** Most white space that is looked at after a `=`; more stands for itself. */
const LONGEST_SOFT_BREAK = 100

/** Where the next line begins when only white space and a line break stand at `start`. */
function softBreakEnd(bytes: Uint8Array, start: number): number | undefined {
  let index = start
  const most = start + LONGEST_SOFT_BREAK
  while (index < most && (bytes[index] === 0x20 || bytes[index] === 0x09)) index++
  if (index >= bytes.length) return bytes.length
  if (bytes[index] === CR && bytes[index + 1] === LF) return index + 2
  return bytes[index] === LF ? index + 1 : undefined
}

function hexPair(bytes: Uint8Array, index: number): number | undefined {
  const high = hexDigit(bytes[index] ?? 0)
  const low = hexDigit(bytes[index + 1] ?? 0)
  return high === undefined || low === undefined ? undefined : high * 16 + low
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined
}
