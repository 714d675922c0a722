/** @module A message that is read piece by piece, as often as somebody needs it, so that it need not be in memory as a whole. */

export interface MessageSource {
  /** The message from its beginning, in pieces of any size but none. They may be kept, and nobody changes them. */
  chunks(): Iterable<Uint8Array>
}

/** Octets of a piece: whoever works on pieces lets others have their turn in between. */
const CHUNK_BYTES = 64 * 1024

/** A message that is in memory. */
export const createSource = (bytes: Uint8Array): MessageSource => ({
  *chunks() {
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES)
  },
})

/** The same octets as a Buffer, not copied. */
export const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

/** The beginning of a message: all of it when it is not longer than `maxBytes`, else somewhat more than that. */
export function readPrefix(source: MessageSource, maxBytes: number): Uint8Array {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for (const slice of source.chunks()) {
    chunks.push(slice)
    sizeBytes += slice.length
    if (sizeBytes > maxBytes) break
  }
  return joinPieces(chunks)
}

/** The same octets in one piece; the piece itself when there is only one. */
export const joinPieces = (pieces: readonly Uint8Array[]): Uint8Array =>
  pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)
