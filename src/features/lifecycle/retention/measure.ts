/**
 * @module Measures the size of the database and the content stores, by kind. Reads every page of the database, so it
 * belongs in a Worker or a command, never on the main thread of a service. Changes nothing. A blob counts for one holder,
 * however many share it: callers count rows newest first, and it is freed with the last row that refers to it.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { listNames } from '#platform/content/files.ts'
import { blobPath, ENCODING, formatMonth, idOfRef, monthOfRef, parseMonthName } from '#platform/content/read.ts'
import { openReadOnly } from '#platform/db/open.ts'

/** Groups of tables. */
export const GROUPS = ['logs', 'events', 'figures', 'webhooks', 'contacts', 'inbound', 'audit', 'other'] as const
export type Group = (typeof GROUPS)[number]

/** Suffixes of a search index's own tables. */
const SHADOW_TABLE = /_(?:data|idx|docsize|config|content)$/

const SEARCH_INDEXES: Readonly<Record<string, Group>> = { email_search: 'logs', mailbox_search: 'inbound' }

const findGroup = (table: string): Group =>
  TABLE_FACTS.get(table)?.group ?? SEARCH_INDEXES[table.replace(SHADOW_TABLE, '')] ?? 'other'

export interface DatabaseUse {
  /** Free pages, which later rows reuse, or which are released. */
  readonly freeBytes: number
  /** Including indexes. */
  readonly groups: Readonly<Record<Group, number>>
}

export const readPragma = (db: Database, name: 'page_count' | 'page_size' | 'freelist_count'): number =>
  db.query<Record<string, number>, []>(`PRAGMA ${name}`).get()?.[name] ?? 0

/** Reads every page; a snapshot if the connection is in a read transaction. */
export function measureDatabase(db: Database): DatabaseUse {
  const pageSize = readPragma(db, 'page_size')
  const bytes = readPragma(db, 'page_count') * pageSize
  const freeBytes = readPragma(db, 'freelist_count') * pageSize
  const trees = db
    .query<{ name: string; tableName: string | null; bytes: number }, []>(
      `SELECT d.name, s.tbl_name AS tableName, d.pgsize AS bytes
       FROM dbstat d LEFT JOIN sqlite_schema s ON s.name = d.name WHERE d.aggregate = TRUE`,
    )
    .all()
  const groups = Object.fromEntries(GROUPS.map((group) => [group, 0])) as Record<Group, number>
  for (const tree of trees) groups[findGroup(tree.tableName ?? tree.name)] += tree.bytes
  // dbstat omits the pointer map pages, which record the parents of other pages.
  const countedBytes = Object.values(groups).reduce((sum, part) => sum + part, 0)
  groups.other += Math.max(0, bytes - freeBytes - countedBytes)
  return { freeBytes, groups }
}

/** A month of a content store. */
export interface MonthUse {
  /** `2026-11`. */
  readonly month: string
  /** Bytes of its files on the disk. */
  readonly bytes: number
  /** Bytes of free pages in its database. */
  readonly freeBytes: number
  /** Bytes of all blobs, in the database or still in its WAL. */
  readonly usedBytes: number
}

/** Use of each month of a content store, oldest first. Omits months that are dropped meanwhile. */
export function measureStore(folder: string): MonthUse[] {
  if (!existsSync(folder)) return []
  const months = Map.groupBy(readdirSync(folder), parseMonthName)
  return [...months]
    .flatMap(([month, names]) => (month === undefined ? [] : [measureMonth(folder, formatMonth(month), names)]))
    .sort((a, b) => (a.month < b.month ? -1 : 1))
}

function measureMonth(folder: string, month: string, names: readonly string[]): MonthUse {
  const { bytes, freeBytes } = readPages(join(folder, `${month}.db`))
  return {
    month,
    bytes: names.reduce((sum, name) => sum + measureAllocated(join(folder, name)), 0),
    freeBytes,
    usedBytes: bytes - freeBytes + measureAllocated(join(folder, month)),
  }
}

/** Bytes of all pages of a database, and of its free pages. */
export function readPages(path: string): { bytes: number; freeBytes: number } {
  if (!existsSync(path)) return { bytes: 0, freeBytes: 0 }
  using db = openReadOnly(path)
  const pageSize = readPragma(db, 'page_size')
  return { bytes: readPragma(db, 'page_count') * pageSize, freeBytes: readPragma(db, 'freelist_count') * pageSize }
}

/**
 * Disk space of a file, or of a folder with its contents, as du(1) counts it. Entries that vanish meanwhile count as 0.
 */
export function measureAllocated(path: string): number {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) return 0
  const ownBytes = (found.blocks ?? 0) * BLOCK_BYTES
  if (!found.isDirectory()) return ownBytes
  return listNames(path).reduce((sum, name) => sum + measureAllocated(join(path, name)), ownBytes)
}

/** Unit of st_blocks on every file system. */
const BLOCK_BYTES = 512

/** Bytes in use of a store, excluding free pages of its databases. */
export const sumUsedBytes = (months: readonly MonthUse[]): number =>
  months.reduce((sum, { usedBytes }) => sum + usedBytes, 0)

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
  using db = openReadOnly(path)
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
}
