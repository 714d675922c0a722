/** @module Reads files that are rows of zstd frames (RFC 8878 §3.1) frame by frame, so that a large part is never in memory as a whole. */
import { closeSync, openSync, readSync } from 'node:fs'

/** Of a frame, compressed; those of the listener and of `part-file.ts` have at most 128 KiB of content. A larger one is read with all that follows. */
const LARGEST_FRAME_BYTES = 512 * 1024

/** What is in a file, in pieces of their own. Throws when the file is not there or is damaged. */
export function* slicesOfFrames(path: string): Generator<Uint8Array> {
  const fd = openSync(path, 'r')
  try {
    let buffer = new Uint8Array(LARGEST_FRAME_BYTES)
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
        const length = frameLength(buffer.subarray(from, filled))
        if (length === undefined) break
        const slice = Bun.zstdDecompressSync(buffer.subarray(from, from + length))
        if (slice.length > 0) yield slice
        from += length
      }
      if (isAtEnd && from === filled) return
      if (isAtEnd) throw new Error('a content file is damaged')
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

/** How long the frame at the beginning is; undefined: not all of it is there. Throws when there is none. */
function frameLength(bytes: Uint8Array): number | undefined {
  if (bytes.length < 5) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.getUint32(0, true) !== MAGIC) throw new Error('a content file is damaged')
  const descriptor = view.getUint8(4)
  const isSingleSegment = (descriptor & 0x20) !== 0
  const sizeFlag = descriptor >> 6
  const sizeBytes = sizeFlag === 0 ? (isSingleSegment ? 1 : 0) : 1 << sizeFlag
  let at = 5 + (isSingleSegment ? 0 : 1) + (DICTIONARY_ID_BYTES[descriptor & 3] ?? 0) + sizeBytes
  for (let isLast = false; !isLast; ) {
    if (at + 3 > bytes.length) return undefined
    const header = view.getUint16(at, true) + (view.getUint8(at + 2) << 16)
    isLast = (header & 1) !== 0
    at += 3 + (((header >> 1) & 3) === RUN_LENGTH_BLOCK ? 1 : header >> 3)
  }
  at += (descriptor & 4) === 0 ? 0 : 4
  return at <= bytes.length ? at : undefined
}
