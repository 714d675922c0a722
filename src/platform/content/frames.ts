/** @module Reads files that are rows of zstd frames (RFC 8878 §3.1) frame by frame, so that a large part is never in memory as a whole. */
import { closeSync, openSync, readSync } from 'node:fs'
import { CorruptBlobError, decompress } from './blob-errors.ts'

/** Of a frame, compressed; those of the listener, of `part-file.ts` and of the store have at most 128 KiB of content. A larger one is read with all that follows. */
const MAX_FRAME_BYTES = 256 * 1024

/**
 * What is in a file, in pieces of their own. Throws when the file is not there or is damaged.
 * @param skipBytes left out at the beginning; frames that lie in them are not decompressed when they say how long they are
 */
export function* readFrames(path: string, skipBytes = 0): Generator<Uint8Array> {
  let leftBytes = skipBytes
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
        const frame = buffer.subarray(from, from + length)
        from += length
        const contentBytes = leftBytes === 0 ? undefined : readContentLength(frame)
        if (contentBytes !== undefined && contentBytes <= leftBytes) {
          leftBytes -= contentBytes
          continue
        }
        const content = decompress(frame)
        const slice = content.subarray(leftBytes)
        leftBytes = Math.max(0, leftBytes - content.length)
        if (slice.length > 0) yield slice
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

/** How long the frame at the beginning is; undefined: not all of it is there. Throws when there is none. */
export function measureFrame(bytes: Uint8Array): number | undefined {
  if (bytes.length < 5) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.getUint32(0, true) !== MAGIC) throw new CorruptBlobError()
  const descriptor = view.getUint8(4)
  let at = findSizeOffset(descriptor) + measureSizeField(descriptor)
  for (let isLast = false; !isLast; ) {
    if (at + 3 > bytes.length) return undefined
    const header = view.getUint16(at, true) + (view.getUint8(at + 2) << 16)
    isLast = (header & 1) !== 0
    at += 3 + (((header >> 1) & 3) === RUN_LENGTH_BLOCK ? 1 : header >> 3)
  }
  at += (descriptor & 4) === 0 ? 0 : 4
  return at <= bytes.length ? at : undefined
}

const isSingleSegment = (descriptor: number): boolean => (descriptor & 0x20) !== 0

/** Where a frame header has the size of the content (RFC 8878 §3.1.1.1). */
const findSizeOffset = (descriptor: number): number =>
  5 + (isSingleSegment(descriptor) ? 0 : 1) + (DICTIONARY_ID_BYTES[descriptor & 3] ?? 0)

function measureSizeField(descriptor: number): number {
  const flag = descriptor >> 6
  return flag === 0 ? (isSingleSegment(descriptor) ? 1 : 0) : 1 << flag
}

/** How much is in a whole frame; undefined when it does not say. */
function readContentLength(frame: Uint8Array): number | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length)
  const descriptor = view.getUint8(4)
  const at = findSizeOffset(descriptor)
  switch (measureSizeField(descriptor)) {
    case 1:
      return view.getUint8(at)
    case 2:
      return view.getUint16(at, true) + 256
    case 4:
      return view.getUint32(at, true)
    case 8:
      return Number(view.getBigUint64(at, true))
    default:
      return undefined
  }
}
