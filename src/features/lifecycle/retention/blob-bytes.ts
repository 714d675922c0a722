/**
 * @module Measures the disk space of each blob in a content store, and counts it for one holder only, however many
 * share it. Callers count rows newest first, so the newest holder gets the bytes: identical blobs are stored once and
 * freed with the last row that refers to them. An unreferenced blob counts for no account. Reads the rows of each
 * requested month, so, like `measure.ts`, it belongs in a Worker or a command.
 */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { blobPath, ENCODING, formatMonth, idOfRef, monthOfRef } from '#platform/content/read.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { readPages } from './measure.ts'

/** Overhead of a row of `parts`. */
const ROW_BYTES = 48

interface Month {
  /** By row id; 0: no such row. */
  readonly sizes: Uint32Array
  /** One bit per row that was counted. */
  readonly counted: Uint8Array
  /** Bytes on the disk per byte of a row: pages are not full. */
  readonly factor: number
  /** Large blobs are separate files. */
  readonly files: ReadonlyMap<number, number>
}

export class BlobBytes {
  readonly #folder: string
  readonly #months = new Map<number, Month | undefined>()

  /** @param folder of the content store */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** The size of a blob; 0 if it does not exist or was counted before. */
  countOnce(ref: number | null | undefined): number {
    if (!ref) return 0
    const month = this.#month(monthOfRef(ref))
    const id = idOfRef(ref)
    const sizeBytes = month?.sizes[id] ?? 0
    if (month === undefined || sizeBytes === 0) return 0
    const byte = month.counted[id >> 3] ?? 0
    if ((byte & (1 << (id & 7))) !== 0) return 0
    month.counted[id >> 3] = byte | (1 << (id & 7))
    return sizeBytes * month.factor + (month.files.get(id) ?? 0)
  }

  /** Makes all blobs countable again. */
  reset(): void {
    for (const month of this.#months.values()) month?.counted.fill(0)
  }

  #month(month: number): Month | undefined {
    if (!this.#months.has(month)) this.#months.set(month, readMonth(this.#folder, month))
    return this.#months.get(month)
  }
}

function readMonth(folder: string, month: number): Month | undefined {
  const path = join(folder, `${formatMonth(month)}.db`)
  if (!existsSync(path)) return undefined
  const db = openReadOnly(path)
  try {
    db.run('BEGIN')
    const last = db.query<{ id: number | null }, []>('SELECT max(id) AS id FROM parts').get()?.id ?? 0
    const sizes = new Uint32Array(last + 1)
    const files = new Map<number, number>()
    let sum = 0
    // SQLite gets the blob's length from the row header, so overflow pages are not read.
    const parts = db.query<{ id: number; encoding: number; size: number }, []>(
      `SELECT id, encoding, coalesce(length(data), 0) + ${ROW_BYTES} AS size FROM parts WHERE encoding <> ${ENCODING.deleted}`,
    )
    const hash = db.query<{ hash: Uint8Array }, [number]>('SELECT hash FROM parts WHERE id = ?')
    for (const { id, encoding, size } of parts.iterate()) {
      sizes[id] = size
      sum += size
      if (encoding !== ENCODING.file) continue
      const path = blobPath(folder, month, hash.get(id)?.hash ?? new Uint8Array())
      files.set(id, statSync(path, { throwIfNoEntry: false })?.size ?? 0)
    }
    const { bytes, freeBytes } = readPages(path)
    return { sizes, files, counted: new Uint8Array((last >> 3) + 1), factor: sum === 0 ? 0 : (bytes - freeBytes) / sum }
  } finally {
    db.close()
  }
}
