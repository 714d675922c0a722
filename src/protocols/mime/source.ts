/** @module A message that can be read in chunks, any number of times, so that it need not be in memory as a whole. */

export interface MessageSource {
  /**
   * The message from its beginning, in non-empty chunks of any size. Callers may retain the chunks but must not change
   * them.
   */
  chunks(): Iterable<Uint8Array>
}

/** Octets of a chunk, between which consumers yield to the event loop. */
const CHUNK_BYTES = 64 * 1024

export const createSource = (bytes: Uint8Array): MessageSource => ({
  *chunks() {
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES)
  },
})

/** Returns the same octets as a Buffer, not copied. */
export const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

/**
 * Returns the beginning of a message: the whole message if it is not longer than `maxBytes`, else `maxBytes` or
 * slightly more.
 */
export function readPrefix(source: MessageSource, maxBytes: number): Uint8Array {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for (const chunk of source.chunks()) {
    chunks.push(chunk)
    sizeBytes += chunk.length
    if (sizeBytes > maxBytes) break
  }
  return joinPieces(chunks)
}

/** Returns the same octets in one piece; the piece itself when there is only one. */
export const joinPieces = (pieces: readonly Uint8Array[]): Uint8Array =>
  pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)
