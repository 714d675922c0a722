/**
 * @module Packs a blob for the content store: computes the hash that names it, compresses it where that saves space,
 * and splits it into frames if it is large enough for a file. Stores nothing.
 */
import { sha256 } from '#platform/crypto/crypto.ts'
import { ENCODING, HASH_BYTES } from './read.ts'

/** Larger blobs are stored in files, so that the database stays quick to copy. */
const MAX_INLINE_BYTES = 256 * 1024
/** Below this size compression saves nothing. */
const MIN_COMPRESSED_BYTES = 200
const ZSTD_LEVEL = 1
/** Content per frame in a file. */
const FRAME_BYTES = 128 * 1024

/** A blob as its row stores it. */
export interface PackedBlob {
  readonly hash: Uint8Array
  readonly sizeBytes: number
  readonly encoding: number
  readonly data: Uint8Array | null
}

/** The result has no data for a blob that goes into a file; `compressFrames` compresses such a blob. */
export function packBlob(part: Uint8Array): PackedBlob {
  const hash = sha256(part).subarray(0, HASH_BYTES)
  const sizeBytes = part.length
  if (sizeBytes > MAX_INLINE_BYTES) return { hash, sizeBytes, encoding: ENCODING.file, data: null }
  const data = sizeBytes >= MIN_COMPRESSED_BYTES ? Bun.zstdCompressSync(part, { level: ZSTD_LEVEL }) : part
  return data.length < sizeBytes
    ? { hash, sizeBytes, encoding: ENCODING.zstd, data }
    : { hash, sizeBytes, encoding: ENCODING.raw, data: part }
}

/** Compresses a large blob into consecutive frames, so that it can be read in chunks. */
export async function compressFrames(part: Uint8Array): Promise<Uint8Array> {
  const frames: Uint8Array[] = []
  for (let from = 0; from < part.length; from += FRAME_BYTES)
    frames.push(await Bun.zstdCompress(part.subarray(from, from + FRAME_BYTES), { level: ZSTD_LEVEL }))
  return Buffer.concat(frames)
}
