/**
 * @module Encodes the octets of link tokens: integers of variable length, and canonical base64url (one text per octet
 * string). Knows no token format, and neither seals nor verifies.
 */

/** Octets of the longest integer: JavaScript's exact integers have 53 bits, and each octet holds 7. */
export const MAX_VARINT_BYTES = 8

/**
 * Writes seven bits per octet, low bits first; all octets but the last have the high bit set. Throws a RangeError for a
 * value that is not a row id.
 */
export function encodeVarint(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a row id: ${value}`)
  const octets: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) octets.push((rest % 0x80) | 0x80)
  return Buffer.from([...octets, rest])
}

/**
 * Returns the integer at `start`, and the position after it. Only for output of `encodeVarint`: other octets decode to
 * arbitrary numbers.
 */
export function decodeVarint(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0
  let end = start
  for (let scale = 1; ; scale *= 0x80) {
    const octet = bytes[end++] ?? 0
    value += (octet & 0x7f) * scale
    if (octet < 0x80) return { value, end }
  }
}

/** Length in base64url of this many octets. */
export const base64urlLength = (octets: number): number => Math.ceil((octets * 4) / 3)

/**
 * Decodes canonical base64url. Undefined for a text that is longer than `maxLength`, or that a lenient decoder would
 * accept but we would not write.
 */
export function decodeBase64url(text: string, maxLength: number): Buffer | undefined {
  if (text.length > maxLength) return undefined
  const octets = Buffer.from(text, 'base64url')
  return octets.toString('base64url') === text ? octets : undefined
}
