/** @module A message that is read piece by piece, as often as somebody needs it, so that it need not be in memory as a whole. */

export interface MessageSource {
  /** The message from its beginning, in pieces of any size but none. They may be kept, and nobody changes them. */
  slices(): Iterable<Uint8Array>
}

/** Octets of a piece: whoever works on pieces lets others have their turn in between. */
const SLICE_BYTES = 64 * 1024

/** A message that is in memory. */
export const sourceOf = (bytes: Uint8Array): MessageSource => ({
  *slices() {
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) yield bytes.subarray(at, at + SLICE_BYTES)
  },
})

/** The same octets as a Buffer, not copied. */
export const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

/** The beginning of a message: all of it when it is not longer than `mostBytes`, else somewhat more than that. */
export function startOf(source: MessageSource, mostBytes: number): Uint8Array {
  const slices: Uint8Array[] = []
  let sizeBytes = 0
  for (const slice of source.slices()) {
    slices.push(slice)
    sizeBytes += slice.length
    if (sizeBytes > mostBytes) break
  }
  return joined(slices)
}

/** The same octets in one piece; the piece itself when there is only one. */
export const joined = (pieces: readonly Uint8Array[]): Uint8Array =>
  pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)
