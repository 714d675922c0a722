/** @module Errors for blobs of the content store that cannot be read. */

/**
 * The reference points to nothing: the month was dropped or the file deleted. Any other read error is a disk failure or
 * a bug.
 */
export class MissingBlobError extends Error {
  constructor(message = 'blob is missing', options?: ErrorOptions) {
    super(message, options)
    this.name = 'MissingBlobError'
  }
}

/** The stored bytes are not those that were written. */
export class CorruptBlobError extends MissingBlobError {
  constructor(cause?: unknown) {
    super('blob is corrupt', { cause })
  }
}

/** Decompresses zstd. Throws CorruptBlobError when the bytes are not zstd. */
export function decompress(bytes: Uint8Array<ArrayBuffer>): Uint8Array {
  try {
    return Bun.zstdDecompressSync(bytes)
  } catch (error) {
    throw new CorruptBlobError(error)
  }
}
