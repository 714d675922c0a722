/** @module Packs a part for the content store: named by its hash, compressed where that saves something, large ones as frames for a file. Stores nothing. */
import { sha256 } from '../crypto.ts'
import { ENCODING } from './read.ts'

/** Parts above this lie in files of their own, so that the database stays quick to copy. */
const MAX_INLINE_BYTES = 256 * 1024
/** Below this, compressing saves nothing. */
const MIN_COMPRESSED_BYTES = 200
const ZSTD_LEVEL = 1
/** Content of a frame in a file. */
const FRAME_BYTES = 128 * 1024

/** A part as its row has it. */
export interface PackedBlob {
  readonly hash: Uint8Array
  readonly sizeBytes: number
  readonly encoding: number
  readonly data: Uint8Array | null
}

/** One for a file has its data there. */
export function packBlob(part: Uint8Array): PackedBlob {
  const hash = sha256(part).subarray(0, 16)
  const sizeBytes = part.length
  if (sizeBytes > MAX_INLINE_BYTES) return { hash, sizeBytes, encoding: ENCODING.file, data: null }
  const data = sizeBytes >= MIN_COMPRESSED_BYTES ? Bun.zstdCompressSync(part, { level: ZSTD_LEVEL }) : part
  return data.length < sizeBytes
    ? { hash, sizeBytes, encoding: ENCODING.zstd, data }
    : { hash, sizeBytes, encoding: ENCODING.raw, data: part }
}

/** A large part compressed as a row of frames, so that it can be read in slices. */
export async function compressFrames(part: Uint8Array): Promise<Uint8Array> {
  const frames: Uint8Array[] = []
  for (let from = 0; from < part.length; from += FRAME_BYTES)
    frames.push(await Bun.zstdCompress(part.subarray(from, from + FRAME_BYTES), { level: ZSTD_LEVEL }))
  return Buffer.concat(frames)
}
