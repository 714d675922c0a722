/**
 * @module Writes a large blob into a file that a content store can adopt: compresses the blob as it arrives into
 * consecutive zstd frames, and holds only one block in memory. Writes synchronously, so that data cannot pile up in
 * memory; therefore for Workers only.
 */
import { closeSync, fdatasync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { promisify } from 'node:util'
import { HASH_BYTES } from './read.ts'
import type { FinishedFile } from './store.ts'

const BLOCK_BYTES = 128 * 1024
const ZSTD_LEVEL = 1

const sync = promisify(fdatasync)

export type BlobFile = ReturnType<typeof createBlobFile>

/**
 * Creates the file, which must not exist. Throws system errors, here and at each write.
 * @param blockBytes memory that the file takes while it is written
 */
export function createBlobFile(path: string, blockBytes = BLOCK_BYTES) {
  let fd: number | undefined = openSync(path, 'wx', 0o600)
  const hash = new Bun.CryptoHasher('sha256')
  const block = new Uint8Array(blockBytes)
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
  /** Writes what is left, and returns the descriptor. */
  const writeRest = (): number => {
    flush()
    if (fd === undefined) throw new Error('the file was closed')
    return fd
  }
  const end = (): FinishedFile => {
    close()
    return { path, hash: new Uint8Array(hash.digest()).slice(0, HASH_BYTES), sizeBytes }
  }
  return {
    write(bytes: Uint8Array): void {
      sizeBytes += bytes.length
      for (let from = 0; from < bytes.length; ) {
        const part = bytes.subarray(from, from + blockBytes - filled)
        block.set(part, filled)
        filled += part.length
        from += part.length
        if (filled === blockBytes) flush()
      }
    },
    /** Returns once the whole file is on disk. */
    finish(): FinishedFile {
      fdatasyncSync(writeRest())
      return end()
    },
    /** The same without blocking the thread; until it has ended the file must not be closed. */
    async finishInBackground(): Promise<FinishedFile> {
      await sync(writeRest())
      return end()
    },
    /** Closes an unfinished file without deleting it. */
    close,
  }
}
