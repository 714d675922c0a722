/**
 * @module Reads files of consecutive zstd frames (RFC 8878 §3.1) frame by frame, so that a large blob is never in
 * memory as a whole. Has the errors for blobs that cannot be read.
 */
import { closeSync, openSync, readSync } from 'node:fs'

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

/**
 * Initial size of the buffer, which must hold one compressed frame and grows for a larger one. The frames that the
 * listener, `blob-file.ts` and the store write have at most 128 KiB of content.
 */
const MAX_FRAME_BYTES = 256 * 1024

/** Yields the content of a file in chunks. Throws when the file is missing or corrupt. */
export function* readFrames(path: string): Generator<Uint8Array> {
  const fd = openSync(path, 'r')
  try {
    let buffer = new Uint8Array(MAX_FRAME_BYTES)
    let filled = 0
    let isAtEnd = false
    for (;;) {
      while (!isAtEnd && filled < buffer.length) {
        const read = readSync(fd, buffer, filled, buffer.length - filled, null)
        filled += read
        isAtEnd = read === 0
      }
      let from = 0
      for (;;) {
        const length = measureFrame(buffer.subarray(from, filled))
        if (length === undefined) break
        const content = decompress(buffer.subarray(from, from + length))
        from += length
        if (content.length > 0) yield content
      }
      if (isAtEnd && from === filled) return
      if (isAtEnd) throw new CorruptBlobError()
      if (from === 0) {
        const larger = new Uint8Array(buffer.length * 2)
        larger.set(buffer)
        buffer = larger
      } else {
        buffer.copyWithin(0, from, filled)
        filled -= from
      }
    }
  } finally {
    closeSync(fd)
  }
}

const MAGIC = 0xfd2fb528
const DICTIONARY_ID_BYTES = [0, 1, 2, 4]
const RUN_LENGTH_BLOCK = 1

/**
 * The length of the frame at the start; undefined when the frame is incomplete. Throws when the bytes do not begin with
 * a frame.
 */
export function measureFrame(bytes: Uint8Array): number | undefined {
  if (bytes.length < 5) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.getUint32(0, true) !== MAGIC) throw new CorruptBlobError()
  const descriptor = view.getUint8(4)
  // §3.1.1.1: a single segment has a field for its size, anything else one for its window.
  const sizeFlag = descriptor >> 6
  let at = 5 + (DICTIONARY_ID_BYTES[descriptor & 3] ?? 0) + (sizeFlag === 0 ? 1 : 1 << sizeFlag)
  if (sizeFlag > 0 && (descriptor & 0x20) === 0) at++
  for (let isLast = false; !isLast; ) {
    if (at + 3 > bytes.length) return undefined
    const header = view.getUint16(at, true) + (view.getUint8(at + 2) << 16)
    isLast = (header & 1) !== 0
    at += 3 + (((header >> 1) & 3) === RUN_LENGTH_BLOCK ? 1 : header >> 3)
  }
  at += (descriptor & 4) === 0 ? 0 : 4
  return at <= bytes.length ? at : undefined
}
