/**
 * @module Reads blobs. Used by the main thread and, over their own read-only connections, by the delivery and parse
 * Workers.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isDatabaseCorrupt } from '../db/corruption.ts'
import { MAIN_THREAD_BUSY_MS, openReadOnly, prepareStatements } from '../db/open.ts'
import { CorruptBlobError, decompress, MissingBlobError } from './blob-errors.ts'
import { readFrames } from './frames.ts'

export { MissingBlobError } from './blob-errors.ts'

/** `deleted`: the blob was removed; its row prevents reuse of the id. */
export const ENCODING = { raw: 0, zstd: 1, file: 2, deleted: 3 } as const

/** Ids within a month are below this, so that month and id share one integer below 2^53. */
const ROWS_PER_MONTH = 2 ** 36

export const toRef = (month: number, id: number): number => month * ROWS_PER_MONTH + id

/** The month of a reference, and the id in it. */
export const monthOfRef = (ref: number): number => Math.floor(ref / ROWS_PER_MONTH)
export const idOfRef = (ref: number): number => ref % ROWS_PER_MONTH

export const formatMonth = (month: number): string =>
  `${Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`

/** The month of a name in the store's folder: a database, write-ahead log or folder; undefined: none. */
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

export interface ContentReader {
  /** A blob's bytes, decompressed. Throws MissingBlobError when the reference points to nothing. */
  get(ref: number): Uint8Array
  /**
   * The decompressed bytes of a blob in chunks, read one at a time, so that a large blob needs little memory. Throws
   * immediately, as `get` does.
   * @param skipBytes bytes to skip at the beginning
   */
  chunks(ref: number, skipBytes?: number): Iterable<Uint8Array>
  /** Whether a blob exists; does not check its content. */
  has(ref: number): boolean
  /** Closes a month that is about to be dropped. */
  release(month: number): void
  close(): void
}

export function createContentReader(folder: string): ContentReader {
  const months = new Map<number, Database>()
  const release = (month: number): void => {
    const db = months.get(month)
    if (!db) return
    months.delete(month)
    // A statement that is not finalized keeps the connection open, and with it the file's disk space in use.
    for (const statement of Object.values(sql(db))) statement.finalize()
    db.close()
  }
  const open = (month: number): Database => {
    const path = join(folder, `${formatMonth(month)}.db`)
    // Checked each time: the month may have been dropped, and an open connection would keep its disk space in use.
    if (!isOnDisk(path)) {
      release(month)
      throw new MissingBlobError()
    }
    const db = months.get(month) ?? openReadOnly(path, MAIN_THREAD_BUSY_MS)
    months.set(month, db)
    return db
  }
  /** The bytes of a blob in the database, or the path of its file. */
  const find = (ref: number): Uint8Array | string => {
    const month = monthOfRef(ref)
    const row = rowOf(month, idOfRef(ref))
    if (!row || row.encoding === ENCODING.deleted) throw new MissingBlobError()
    if (row.encoding === ENCODING.file) return blobPath(folder, month, row.hash)
    if (!row.data) throw new CorruptBlobError()
    return row.encoding === ENCODING.zstd ? decompress(row.data as Uint8Array<ArrayBuffer>) : row.data
  }
  const rowOf = (month: number, id: number) => {
    try {
      return sql(open(month)).get.get(id)
    } catch (error) {
      if (!isDatabaseCorrupt(error)) throw error
      // The operator may replace the file by a backup, which only a new connection reads.
      release(month)
      throw new CorruptBlobError(error)
    }
  }
  return {
    get(ref) {
      const found = find(ref)
      return typeof found === 'string' ? decompress(readBlobFile(found)) : found
    },
    chunks(ref, skipBytes = 0) {
      const found = find(ref)
      if (typeof found !== 'string') return found.length <= skipBytes ? [] : [found.subarray(skipBytes)]
      if (!isOnDisk(found)) throw new MissingBlobError()
      return readFrames(found, skipBytes)
    },
    has(ref) {
      const month = monthOfRef(ref)
      try {
        const row = sql(open(month)).head.get(idOfRef(ref))
        if (!row || row.encoding === ENCODING.deleted) return false
        return row.encoding !== ENCODING.file || isOnDisk(blobPath(folder, month, row.hash))
      } catch (error) {
        if (error instanceof MissingBlobError || isDatabaseCorrupt(error)) return false
        throw error
      }
    },
    release,
    close() {
      for (const month of months.keys()) release(month)
    },
  }
}

/** Throws when the disk returns an error, which does not mean that the file is missing. */
const isOnDisk = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined

function readBlobFile(path: string): Uint8Array<ArrayBuffer> {
  try {
    return readFileSync(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') throw new MissingBlobError()
    throw error
  }
}
