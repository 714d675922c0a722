/**
 * @module Reads blobs, and compares them with the hash under which they were stored. Used by the main thread and, over
 * their own read-only connections, by the delivery and parse Workers.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { equalBytes, sha256 } from '#platform/crypto/crypto.ts'
import { unlessMissing } from '#platform/errors.ts'
import type { Millis } from '#platform/units.ts'
import { isDatabaseCorrupt } from '../db/corruption.ts'
import { MAIN_THREAD_BUSY_MS, openReadOnly, prepareStatements } from '../db/open.ts'
import { CorruptBlobError, decompress, MissingBlobError, readFrames } from './frames.ts'

export { MissingBlobError } from './frames.ts'

/** `deleted`: the blob was removed, but its row stays, so that the id is not reused. */
export const ENCODING = { raw: 0, zstd: 1, file: 2, deleted: 3 } as const

/** Ids within a month are below this, so that month and id share one integer below 2^53. */
const ROWS_PER_MONTH = 2 ** 36

/** Length of the hash of a blob: the beginning of the SHA-256 of its uncompressed bytes. */
export const HASH_BYTES = 16

export const toRef = (month: number, id: number): number => month * ROWS_PER_MONTH + id

/** The month in which blobs of a time are stored. */
export function monthOf(time: Millis): number {
  const date = new Date(time)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The month of a reference, and the id in it. */
export const monthOfRef = (ref: number): number => Math.floor(ref / ROWS_PER_MONTH)
export const idOfRef = (ref: number): number => ref % ROWS_PER_MONTH

export const formatMonth = (month: number): string =>
  `${Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`

/**
 * The month that an entry of the store's folder belongs to (a database, a file that SQLite keeps beside it, or a
 * folder); undefined for any other name.
 */
export function parseMonthName(name: string): number | undefined {
  const [, year, month] = /^(\d{4})-(\d{2})(?:\.db(?:-wal|-shm)?)?$/.exec(name) ?? []
  return year === undefined ? undefined : Number(year) * 12 + Number(month) - 1
}

export const blobPath = (folder: string, month: number, hash: Uint8Array): string =>
  join(folder, formatMonth(month), `${hash.toHex()}.zst`)

const sql = prepareStatements((db) => ({
  get: db.prepare<{ hash: Uint8Array; encoding: number; data: Uint8Array | null }, [number]>(
    'SELECT hash, encoding, data FROM parts WHERE id = ?',
  ),
  head: db.prepare<{ hash: Uint8Array; encoding: number }, [number]>('SELECT hash, encoding FROM parts WHERE id = ?'),
}))

export type ContentReader = ReturnType<typeof createContentReader>

export function createContentReader(folder: string) {
  const months = new Map<number, Database>()
  /** Closes a month that is about to be dropped. */
  const release = (month: number): void => {
    const db = months.get(month)
    if (!db) return
    months.delete(month)
    // A statement that is not finalized keeps the connection open, and with it the file's disk space in use.
    for (const statement of Object.values(sql(db))) statement.finalize()
    db.close()
  }
  /** The statements of a month. */
  const open = (month: number): ReturnType<typeof sql> => {
    const path = join(folder, `${formatMonth(month)}.db`)
    // Checked each time: the month may have been dropped, and an open connection would keep its disk space in use.
    if (!isOnDisk(path)) {
      release(month)
      throw new MissingBlobError()
    }
    const known = months.get(month)
    if (known) return sql(known)
    const db = openReadOnly(path, MAIN_THREAD_BUSY_MS)
    try {
      const statements = sql(db)
      months.set(month, db)
      return statements
    } catch (error) {
      db.close()
      throw error
    }
  }
  /** The bytes of a blob in the database, or the path of its file; and its hash. */
  const find = (ref: number): { readonly found: Uint8Array | string; readonly hash: Uint8Array } => {
    const month = monthOfRef(ref)
    try {
      const row = open(month).get.get(idOfRef(ref))
      if (!row || row.encoding === ENCODING.deleted) throw new MissingBlobError()
      const { hash, encoding, data } = row
      if (encoding === ENCODING.file) return { found: blobPath(folder, month, hash), hash }
      if (!data) throw new CorruptBlobError()
      const bytes = encoding === ENCODING.zstd ? decompress(data as Uint8Array<ArrayBuffer>) : data
      return { found: requireHash(bytes, hash), hash }
    } catch (error) {
      const isBlobCorrupt = error instanceof CorruptBlobError
      if (!isBlobCorrupt && !isDatabaseCorrupt(error)) throw error
      // Closed, because the operator may mend the file, and SQLite keeps the pages that it has read.
      release(month)
      throw isBlobCorrupt ? error : new CorruptBlobError(error)
    }
  }
  return {
    /**
     * A blob's bytes, decompressed. Throws MissingBlobError when the reference points to nothing, CorruptBlobError when
     * the bytes are not those that were stored.
     */
    get(ref: number): Uint8Array {
      const { found, hash } = find(ref)
      if (typeof found !== 'string') return found
      const file = unlessMissing(() => readFileSync(found))
      if (!file) throw new MissingBlobError()
      return requireHash(decompress(file), hash)
    },
    /**
     * The decompressed bytes of a blob in chunks of at most 256 KiB, read one at a time, so that a large blob needs little memory. A missing
     * blob throws at the call, as with `get`, not at the first chunk; a damaged file throws in place of its last chunk.
     */
    chunks(ref: number): Iterable<Uint8Array> {
      const { found, hash } = find(ref)
      if (typeof found !== 'string') return found.length === 0 ? [] : [found]
      if (!isOnDisk(found)) throw new MissingBlobError()
      return requireHashAtEnd(readFrames(found), hash)
    },
    /** Whether a blob exists; does not check its content. */
    has(ref: number): boolean {
      const month = monthOfRef(ref)
      try {
        const row = open(month).head.get(idOfRef(ref))
        if (!row || row.encoding === ENCODING.deleted) return false
        return row.encoding !== ENCODING.file || isOnDisk(blobPath(folder, month, row.hash))
      } catch (error) {
        if (error instanceof MissingBlobError || isDatabaseCorrupt(error)) return false
        throw error
      }
    },
    release,
    close(): void {
      for (const month of months.keys()) release(month)
    },
  }
}

/** Returns the content of a blob. Throws when it is not what was stored. */
function requireHash(content: Uint8Array, hash: Uint8Array): Uint8Array {
  if (!equalBytes(sha256(content).subarray(0, HASH_BYTES), hash)) throw new CorruptBlobError()
  return content
}

/** Yields the chunks of a blob. Throws in place of the last one when they are not what was stored. */
function* requireHashAtEnd(chunks: Iterable<Uint8Array>, hash: Uint8Array): Generator<Uint8Array> {
  const hasher = new Bun.CryptoHasher('sha256')
  let last: Uint8Array | undefined
  for (const chunk of chunks) {
    if (last) yield last
    hasher.update(chunk)
    last = chunk
  }
  if (!equalBytes(hasher.digest().subarray(0, HASH_BYTES), hash)) throw new CorruptBlobError()
  if (last) yield last
}

/** Throws on a disk error, because such an error does not mean that the file is missing. */
const isOnDisk = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined
