/** @module What it means that a part of the content store cannot be had. */

/** A reference leads nowhere: its month was dropped, or its file is gone. Any other error of a read is trouble with the disk or a bug. */
export class MissingBlobError extends Error {
  constructor(message = 'content part is missing', options?: ErrorOptions) {
    super(message, options)
    this.name = 'MissingPart'
  }
}

/** What is there of it is not what was stored. */
export class CorruptBlobError extends MissingBlobError {
  constructor(cause?: unknown) {
    super('content part is damaged', { cause })
  }
}

/** What was compressed. Throws CorruptBlobError when that is not zstd. */
export function decompress(bytes: Uint8Array<ArrayBuffer>): Uint8Array {
  try {
    return Bun.zstdDecompressSync(bytes)
  } catch (error) {
    throw new CorruptBlobError(error)
  }
}
