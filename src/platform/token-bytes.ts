/**
 * @module The octets of the tokens in links: integers of variable length, and base64url that has one text for the same octets. Knows no token, and
 * seals and proves nothing.
 */

/** Octets of the longest integer: JavaScript holds 53 bits, and each octet has 7. */
export const MAX_VARINT_BYTES = 8

/** Seven bits an octet, the low ones first; all but the last octet have the high bit. Throws a RangeError for what is no row id. */
export function encodeVarint(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`no row id: ${value}`)
  const octets: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) octets.push((rest % 0x80) | 0x80)
  return Buffer.from([...octets, rest])
}

/** The integer that begins at `start`, and where it ends. Of octets that `varint` made: others may give any number. */
export function decodeVarint(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0
  let end = start
  for (let scale = 1; ; scale *= 0x80) {
    const octet = bytes[end++] ?? 0
    value += (octet & 0x7f) * scale
    if (octet < 0x80) return { value, end }
  }
}

/** Characters of this many octets in base64url. */
export const base64urlLength = (octets: number): number => Math.ceil((octets * 4) / 3)

/**
 * The octets of base64url as we write it: of the texts that a lenient decoder takes for the same octets, only ours. Undefined for any other text,
 * and for one of more than `longest` characters.
 */
export function decodeBase64url(text: string, longest: number): Buffer | undefined {
  if (text.length > longest) return undefined
  const octets = Buffer.from(text, 'base64url')
  return octets.toString('base64url') === text ? octets : undefined
}
