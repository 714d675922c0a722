/**
 * @module Reads content parts. Used by the main thread and, over read-only connections of their own, by the delivery Workers.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openReadOnly, prepared } from '../db/open.ts'

export const ENCODING = { raw: 0, zstd: 1, file: 2 } as const

/** Rows of a month are below this, so that month and row share one integer below 2^53. */
const ROWS_PER_MONTH = 2 ** 36

export const refOf = (month: number, id: number): number => month * ROWS_PER_MONTH + id

export const monthName = (month: number): string =>
  `${Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`

export const partFile = (folder: string, month: number, hash: Uint8Array): string =>
  join(folder, monthName(month), `${hash.toHex()}.zst`)

const sql = prepared((db) => ({
  get: db.prepare<{ hash: Uint8Array; encoding: number; data: Uint8Array | null }, [number]>(
    'SELECT hash, encoding, data FROM parts WHERE id = ?',
  ),
}))

export interface ContentReader {
  /** A part's bytes, decompressed. Throws when the reference leads nowhere. */
  get(ref: number): Uint8Array
  close(): void
}

export function createContentReader(folder: string): ContentReader {
  const months = new Map<number, Database>()
  return {
    get(ref) {
      const month = Math.floor(ref / ROWS_PER_MONTH)
      let db = months.get(month)
      if (!db) {
        db = openReadOnly(join(folder, `${monthName(month)}.db`))
        months.set(month, db)
      }
      const row = sql(db).get.get(ref % ROWS_PER_MONTH)
      if (!row) throw new Error('content part is missing')
      if (row.encoding === ENCODING.file) return Bun.zstdDecompressSync(readFileSync(partFile(folder, month, row.hash)))
      if (!row.data) throw new Error('content part is empty')
      return row.encoding === ENCODING.zstd ? Bun.zstdDecompressSync(row.data) : row.data
    },
    close() {
      for (const db of months.values()) db.close()
      months.clear()
    },
  }
}
