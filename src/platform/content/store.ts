/**
 * @module Bodies and attachments, apart from the main database: `content/YYYY-MM.db`, identical parts once by hash, compressed, large ones as
 * files beside it. A part is durable before its reference is given out, so no row ever refers to what a power cut took. Retention drops whole
 * months; nothing here is ever updated.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Millis } from '../clock.ts'
import { sha256 } from '../crypto.ts'
import { Committer, type CommitterOptions, storageError } from '../db/commit.ts'
import { openDatabase, prepared } from '../db/open.ts'
import { type ContentReader, createContentReader, ENCODING, monthName, monthOfName, partFile, refOf } from './read.ts'

/** A part's place: month and row, in one integer. */
export type ContentRef = number

/** Parts above this lie in files of their own, so that the database stays quick to copy. */
const LARGEST_INLINE_BYTES = 256 * 1024
/**
 * From here on identical parts are found by an index over their hash. Smaller ones are found only while they are remembered: a hash lands on a
 * random page of the index, which costs more to write than a small part, and ever more as the month grows.
 */
const SMALLEST_INDEXED_BYTES = 16 * 1024
const MOST_REMEMBERED = 10_000
/** Below this, compressing saves nothing. */
const SMALLEST_COMPRESSED_BYTES = 200
const ZSTD_LEVEL = 1
/** Content of a frame in a file. */
const FRAME_BYTES = 128 * 1024

const SCHEMA = `CREATE TABLE IF NOT EXISTS parts (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL, size_bytes INTEGER NOT NULL, encoding INTEGER NOT NULL, data BLOB
) STRICT`

const sql = prepared((db) => ({
  find: db.prepare<{ id: number; encoding: number }, [Uint8Array]>(
    `SELECT id, encoding FROM parts WHERE hash = ? AND size_bytes >= ${SMALLEST_INDEXED_BYTES}`,
  ),
  insert: db.prepare<{ id: number }, [Uint8Array, number, number, Uint8Array | null]>(
    'INSERT INTO parts (hash, size_bytes, encoding, data) VALUES (?, ?, ?, ?) RETURNING id',
  ),
}))

/** A finished file that somebody else wrote and synced: one part, compressed with zstd. */
export interface FinishedFile {
  readonly path: string
  /** The first 16 bytes of the SHA-256 of the part, before it was compressed. */
  readonly hash: Uint8Array
  /** Of the part, before it was compressed. */
  readonly sizeBytes: number
}

interface Prepared {
  readonly hash: Uint8Array
  readonly sizeBytes: number
  readonly encoding: number
  readonly data: Uint8Array | null
}

export class ContentStore {
  readonly #folder: string
  readonly #options: CommitterOptions
  readonly #months = new Map<number, Committer>()
  readonly #reader: ContentReader
  /** Small parts stored lately: hash and month -> row. */
  readonly #remembered = new Map<string, number>()

  /** @param folder made when it is missing */
  constructor(folder: string, options: CommitterOptions = {}) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#folder = folder
    this.#options = options
    this.#reader = createContentReader(folder)
  }

  /** Stores parts and resolves with their references, in order, once they are on disk. A full disk rejects with 507. */
  async put(parts: readonly Uint8Array[], now: Millis): Promise<ContentRef[]> {
    if (parts.length === 0) return []
    try {
      const month = monthOf(now)
      const committer = this.#month(month)
      const ready: Prepared[] = []
      for (const part of parts) ready.push(await this.#prepare(part, month))
      const ids = await committer.write((tx) => ready.map((part) => this.#insert(tx.db, month, part)))
      for (const [index, part] of ready.entries()) this.#remember(month, part, ids[index])
      return ids.map((id) => refOf(month, id))
    } catch (error) {
      throw storageError(error)
    }
  }

  /**
   * Takes a finished file as a part, without reading it: the file moves to its place, which must be on the same file system, or goes when the same
   * part is there. Resolves with its reference once it is on disk. A full disk rejects with 507; whether the file is still there is then open.
   */
  async adopt({ path, hash, sizeBytes }: FinishedFile, now: Millis): Promise<ContentRef> {
    try {
      const month = monthOf(now)
      const committer = this.#month(month)
      const target = partFile(this.#folder, month, hash)
      await this.#makeMonthFolder(month)
      // Over the same part, if it is there: what is in it is the same.
      await rename(path, target)
      await syncFolder(dirname(target))
      const { id, isInline } = await committer.write((tx) => {
        const { find, insert } = sql(tx.db)
        const known = find.get(hash)
        const row = known ?? insert.get(hash, sizeBytes, ENCODING.file, null)
        if (!row) throw new Error('a content part was not stored')
        return { id: row.id, isInline: known !== null && known.encoding !== ENCODING.file }
      })
      // What the database holds needs no file.
      if (isInline) await rm(target, { force: true })
      return refOf(month, id)
    } catch (error) {
      throw storageError(error)
    }
  }

  /**
   * Drops the months that ended before a time, with all that is in them: whoever asks for one of their parts is told that it is missing.
   * @returns how many
   */
  async dropMonthsBefore(time: Millis): Promise<number> {
    const first = monthOf(time)
    const found = Map.groupBy(readdirSync(this.#folder), monthOfName)
    let dropped = 0
    for (const [month, names] of found) {
      if (month === undefined || month >= first) continue
      const committer = this.#months.get(month)
      this.#months.delete(month)
      await committer?.close()
      this.#reader.release(month)
      // The database before its files: rows without files would lie about what is there.
      for (const name of names.sort((a, b) => Number(b.endsWith('.db')) - Number(a.endsWith('.db'))))
        await rm(join(this.#folder, name), { recursive: true, force: true })
      dropped++
    }
    if (dropped > 0) {
      await syncFolder(this.#folder)
      this.#remembered.clear()
    }
    return dropped
  }

  #insert(db: Database, month: number, part: Prepared): number {
    const { find, insert } = sql(db)
    const isSmall = part.sizeBytes < SMALLEST_INDEXED_BYTES
    const known = isSmall ? this.#remembered.get(rememberedKey(month, part)) : find.get(part.hash)?.id
    const id = known ?? insert.get(part.hash, part.sizeBytes, part.encoding, part.data)?.id
    if (id === undefined) throw new Error('a content part was not stored')
    return id
  }

  /** Only after the commit: an id of a group that failed leads nowhere. */
  #remember(month: number, part: Prepared, id: number | undefined): void {
    if (id === undefined || part.sizeBytes >= SMALLEST_INDEXED_BYTES) return
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(rememberedKey(month, part), id)
  }

  /** A part's bytes. Throws MissingPart when the reference leads nowhere. */
  get(ref: ContentRef): Uint8Array {
    return this.#reader.get(ref)
  }

  /** The same in pieces of at most 256 KiB, read as they are asked for, without `skipBytes` at the beginning. Throws as `get` does, at once. */
  slices(ref: ContentRef, skipBytes = 0): Iterable<Uint8Array> {
    return this.#reader.slices(ref, skipBytes)
  }

  /** The databases of the months in use, for tests that fill them. */
  databases(): Database[] {
    return [...this.#months.values()].map((committer) => committer.db)
  }

  async close(): Promise<void> {
    this.#reader.close()
    await Promise.all([...this.#months.values()].map((committer) => committer.close()))
    this.#months.clear()
  }

  #month(month: number): Committer {
    let committer = this.#months.get(month)
    if (!committer) {
      const path = join(this.#folder, `${monthName(month)}.db`)
      const db = openDatabase(path)
      db.run(SCHEMA)
      db.run(
        `CREATE UNIQUE INDEX IF NOT EXISTS parts_hash ON parts (hash) WHERE size_bytes >= ${SMALLEST_INDEXED_BYTES}`,
      )
      committer = new Committer(db, path, this.#options)
      this.#months.set(month, committer)
    }
    return committer
  }

  async #prepare(part: Uint8Array, month: number): Promise<Prepared> {
    const hash = sha256(part).subarray(0, 16)
    const sizeBytes = part.length
    if (sizeBytes <= LARGEST_INLINE_BYTES) {
      const packed = sizeBytes >= SMALLEST_COMPRESSED_BYTES ? Bun.zstdCompressSync(part, { level: ZSTD_LEVEL }) : part
      return packed.length < sizeBytes
        ? { hash, sizeBytes, encoding: ENCODING.zstd, data: packed }
        : { hash, sizeBytes, encoding: ENCODING.raw, data: part }
    }
    const path = partFile(this.#folder, month, hash)
    await this.#makeMonthFolder(month)
    if (!existsSync(path)) await writeFileSynced(path, await framesOf(part))
    // Also when the file was there: who wrote it may not have come to this yet.
    await syncFolder(dirname(path))
    return { hash, sizeBytes, encoding: ENCODING.file, data: null }
  }

  /** The folder for the files of a month, with its own entry durable. */
  async #makeMonthFolder(month: number): Promise<void> {
    const made = await mkdir(join(this.#folder, monthName(month)), { recursive: true, mode: 0o700 })
    if (made !== undefined) await syncFolder(this.#folder)
  }
}

/** A large part compressed as a row of frames, so that it can be read in slices. */
async function framesOf(part: Uint8Array): Promise<Uint8Array> {
  const frames: Uint8Array[] = []
  for (let from = 0; from < part.length; from += FRAME_BYTES)
    frames.push(await Bun.zstdCompress(part.subarray(from, from + FRAME_BYTES), { level: ZSTD_LEVEL }))
  return Buffer.concat(frames)
}

const rememberedKey = (month: number, part: Prepared): string => `${month} ${part.hash.toBase64()}`

const monthOf = (now: Millis): number => {
  const date = new Date(now)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

let lastTemporary = 0

/** Writes a file so that it appears under its name only when it is whole. */
async function writeFileSynced(path: string, data: Uint8Array): Promise<void> {
  const temporary = `${path}.${++lastTemporary}.tmp`
  try {
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(data)
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
