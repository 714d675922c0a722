/**
 * @module Writes a large part into a file that a content store can adopt, while it comes, compressed as a row of zstd frames: in memory is one block.
 * Synchronous, for Workers: nothing can pile up before the disk.
 */
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import type { FinishedFile } from './store.ts'

export interface BlobFile {
  write(bytes: Uint8Array): void
  /** All of it is on disk. */
  finish(): FinishedFile
  /** Closes what was not finished; the file stays. */
  close(): void
}

const BLOCK_BYTES = 128 * 1024
const ZSTD_LEVEL = 1
/** As `pack.ts` names parts. */
const HASH_BYTES = 16

/** Makes the file, which must not be there. Throws what the system says, here and at each write. */
export function createBlobFile(path: string): BlobFile {
  let fd: number | undefined = openSync(path, 'wx', 0o600)
  const hash = new Bun.CryptoHasher('sha256')
  const block = new Uint8Array(BLOCK_BYTES)
  let filled = 0
  let sizeBytes = 0
  const flush = (): void => {
    if (filled === 0 || fd === undefined) return
    const full = block.subarray(0, filled)
    hash.update(full)
    const packed = Bun.zstdCompressSync(full, { level: ZSTD_LEVEL })
    for (let written = 0; written < packed.length; ) written += writeSync(fd, packed, written)
    filled = 0
  }
  const close = (): void => {
    if (fd !== undefined) closeSync(fd)
    fd = undefined
  }
  return {
    write(bytes) {
      sizeBytes += bytes.length
      for (let from = 0; from < bytes.length; ) {
        const part = bytes.subarray(from, from + BLOCK_BYTES - filled)
        block.set(part, filled)
        filled += part.length
        from += part.length
        if (filled === BLOCK_BYTES) flush()
      }
    },
    finish() {
      flush()
      if (fd === undefined) throw new Error('the file was closed')
      fdatasyncSync(fd)
      close()
      return { path, hash: new Uint8Array(hash.digest()).slice(0, HASH_BYTES), sizeBytes }
    },
    close,
  }
}
