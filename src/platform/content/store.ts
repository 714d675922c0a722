/**
 * @module Stores bodies and attachments as blobs, apart from the main database: in `content/YYYY-MM.db`, compressed;
 * large blobs are files beside that database. Most identical blobs are stored once, found by their hash. A blob is
 * durable before its reference is returned, so no row ever references a blob that a power cut destroyed. Blobs never
 * change: each is deleted when nothing references it, or together with its whole month.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sha256 } from '#platform/crypto/crypto.ts'
import { toStorageError } from '#platform/disk/storage-errors.ts'
import { type Clock, systemClock, yieldToEventLoop } from '#platform/time/clock.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
import type { Committer, CommitterOptions, WriteOptions } from '../db/commit.ts'
import { prepareStatements } from '../db/open.ts'
import { tooLittleSpace } from '../errors.ts'
import { Counts } from '../queue/counts.ts'
import { createMonths, MIN_INDEXED_BYTES, type Months } from './months.ts'
import * as read from './read.ts'
import { syncFolder, writeFileSynced } from './synced-files.ts'

/** Month and row of a blob, in one integer. */
export type ContentRef = number

const MAX_CACHED_IDS = 10_000
const FILES_PER_BATCH = 100
/** Larger blobs are stored in files, so that the database stays quick to copy. */
const MAX_INLINE_BYTES = 256 * 1024
/** Below this size compression saves nothing. */
const MIN_COMPRESSED_BYTES = 200
const ZSTD_LEVEL = 1
/** Content per frame in a file. */
const FRAME_BYTES = 128 * 1024

const sql = prepareStatements((db) => ({
  find: db.prepare<{ id: number; encoding: number }, [Uint8Array]>(
    `SELECT id, encoding FROM parts WHERE hash = ? AND size_bytes >= ${MIN_INDEXED_BYTES}`,
  ),
  remove: db.prepare<{ hash: Uint8Array; encoding: number }, [number]>(
    'DELETE FROM parts WHERE id = ? AND id < (SELECT max(id) FROM parts) RETURNING hash, encoding',
  ),
  part: db.prepare<{ hash: Uint8Array; encoding: number }, [number]>('SELECT hash, encoding FROM parts WHERE id = ?'),
  // The last row stays, emptied: its id must not be reused.
  clear: db.prepare(
    `UPDATE parts SET hash = randomblob(16), encoding = ${read.ENCODING.deleted}, size_bytes = 0, data = NULL WHERE id = ?`,
  ),
  any: db.prepare<{ id: number }, []>(`SELECT id FROM parts WHERE encoding <> ${read.ENCODING.deleted} LIMIT 1`),
  last: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM parts'),
  insert: db.prepare<{ id: number }, [Uint8Array, number, number, Uint8Array | null]>(
    'INSERT INTO parts (hash, size_bytes, encoding, data) VALUES (?, ?, ?, ?) RETURNING id',
  ),
}))

/** A finished and synced file with one zstd-compressed blob. */
export interface FinishedFile {
  readonly path: string
  /** The first 16 bytes of the SHA-256 of the uncompressed blob. */
  readonly hash: Uint8Array
  /** Size of the uncompressed blob. */
  readonly sizeBytes: number
}

/** A blob as its row stores it. */
export interface PackedBlob {
  readonly hash: Uint8Array
  readonly sizeBytes: number
  readonly encoding: number
  readonly data: Uint8Array | null
}

export interface PutOptions extends WriteOptions {
  readonly runFairly?: ((pack: () => PackedBlob) => Promise<PackedBlob>) | undefined
}

export class ContentStore {
  readonly #folder: string
  readonly #recent: RecentBlobs
  readonly #months: Months
  readonly #disk: CommitterOptions['disk']
  readonly #replica: CommitterOptions['replica']
  readonly #isDeletionHeld: () => boolean
  readonly #reader: read.ContentReader
  readonly get: read.ContentReader['get']
  readonly chunks: read.ContentReader['chunks']
  readonly has: read.ContentReader['has']
  /** Recently stored small blobs: month and hash -> row id. */
  readonly #cachedIds = new Map<string, number>()
  /** For each month, the number of running calls that store into it. */
  readonly #writesByMonth = new Counts()
  readonly #dropping = new Map<number, Promise<void>>()
  /** Whether a crash or a failure may have left files without a row. */
  #mayHaveOrphans = true
  /** Paths of files being stored, until their row is on disk. */
  readonly #pendingFiles = new Counts<string>()

  /** @param folder created if missing */
  constructor(
    folder: string,
    options: CommitterOptions & {
      readonly clock?: Pick<Clock, 'monotonicMs' | 'sleep'>
      /** Whether blobs must stay for now, because a backup copies the store. */
      readonly isDeletionHeld?: () => boolean
    } = {},
  ) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#folder = folder
    this.#months = createMonths(folder, options)
    this.#disk = options.disk
    this.#replica = options.replica
    this.#isDeletionHeld = options.isDeletionHeld ?? (() => false)
    this.#recent = createRecentBlobs(options.clock ?? systemClock)
    this.#reader = read.createContentReader(folder)
    this.get = this.#reader.get
    this.chunks = this.#reader.chunks
    this.has = this.#reader.has
  }

  /**
   * Stores blobs and resolves with their references, in order, once they are on disk. A full disk rejects with 507.
   * @param options.runFairly calls the function that packs a blob when its owner's turn comes, because packing a large
   * blob takes some milliseconds; default: calls it immediately
   */
  async put(parts: readonly Uint8Array[], now: Millis, options: PutOptions = {}): Promise<ContentRef[]> {
    if (parts.length === 0) return []
    const { runFairly } = options
    return this.#storeInMonth(read.monthOf(now), async (month, addPendingFile) => {
      const committer = this.#months.committer(month)
      const ready: PackedBlob[] = []
      for (const part of parts) {
        const prepared = runFairly ? await runFairly(() => packBlob(part)) : packBlob(part)
        ready.push(prepared)
        if (prepared.encoding !== read.ENCODING.file) continue
        await this.#requireDiskSpace(part, options)
        addPendingFile(prepared.hash)
        await this.#storeFile(part, month, prepared.hash)
      }
      const ids = await committer.write((tx) => ready.map((part) => this.#insert(tx.db, month, part)), options)
      this.#months.recordIssued(month, Math.max(...ids))
      for (const [index, part] of ready.entries()) this.#cacheId(month, part, ids[index])
      return ids.map((id) => read.toRef(month, id))
    })
  }

  /**
   * Adopts a finished file as a blob without reading the file: moves it into the store, which must be on the same file
   * system. If the blob is already stored, it is not stored twice. Resolves with the blob's reference once the blob is
   * on disk. A full disk rejects with 507; the file may then be deleted or not.
   */
  async adopt({ path, hash, sizeBytes }: FinishedFile, now: Millis, writing: WriteOptions = {}): Promise<ContentRef> {
    return this.#storeInMonth(read.monthOf(now), async (month, addPendingFile) => {
      const target = addPendingFile(hash)
      const committer = this.#months.committer(month)
      await this.#makeMonthFolder(month)
      // This may replace the file of an identical blob, which has the same content.
      await this.#replicateFile(month, hash, target, path)
      await rename(path, target)
      await syncFolder(dirname(target))
      const { id, isInline } = await committer.write((tx) => {
        const { find, insert } = sql(tx.db)
        const known = find.get(hash)
        const row = known ?? insert.get(hash, sizeBytes, read.ENCODING.file, null)
        if (!row) throw new Error('blob not stored')
        this.#recordRef(month, row.id, known !== null)
        return { id: row.id, isInline: known !== null && known.encoding !== read.ENCODING.file }
      }, writing)
      this.#months.recordIssued(month, id)
      // A blob in the database needs no file.
      if (isInline) {
        await rm(target, { force: true })
        void this.#replica?.removeFiles([target])
      }
      return read.toRef(month, id)
    })
  }

  /**
   * Throws 507 when a blob would touch the disk reserve. Called before a file is written; for rows the Committer makes
   * the same check.
   */
  async #requireDiskSpace(part: Uint8Array, { mayUseReserve }: WriteOptions): Promise<void> {
    if (!this.#disk || mayUseReserve) return
    await this.#disk.refresh()
    if (!this.#disk.hasSpaceFor(part.length)) throw tooLittleSpace(part.length)
  }

  /**
   * Calls `store` with a month, which is not dropped before `store` has ended. If `store` fails, deletes the files that
   * it created; a full disk becomes a 507.
   */
  async #storeInMonth<T>(
    month: number,
    store: (month: number, addPendingFile: (hash: Uint8Array) => string) => Promise<T>,
  ): Promise<T> {
    await this.#dropping.get(month)
    this.#writesByMonth.add(month, 1)
    const pending = new Map<string, Uint8Array>()
    const end = (): void => {
      for (const path of pending.keys()) this.#pendingFiles.add(path, -1)
      this.#writesByMonth.add(month, -1)
    }
    try {
      const stored = await store(month, (hash) => {
        const path = read.blobPath(this.#folder, month, hash)
        if (!pending.has(path)) this.#pendingFiles.add(path, 1)
        pending.set(path, hash)
        return path
      })
      end()
      return stored
    } catch (error) {
      end()
      for (const hash of pending.values()) this.#removeOrphan(month, hash)
      throw toStorageError(error)
    }
  }

  /**
   * Deletes blobs that nothing references, with their files, and drops a month before that of `now` once the month is
   * empty. Keeps blobs that `put` or `adopt` returned again in the last minutes, because the row that references such a
   * blob may not exist yet, and all blobs while deletion is held. Does not recognise new blobs, so the caller passes only references below `settledBelow`.
   * @returns references of the blobs that were kept
   */
  async deleteBlobs(refs: readonly ContentRef[], now: Millis): Promise<ContentRef[]> {
    if (this.isDeletionHeld) return [...refs]
    const kept: ContentRef[] = []
    for (const [month, ofMonth] of Map.groupBy(refs, read.monthOfRef)) {
      if (!existsSync(this.#months.path(month)) || this.#dropping.has(month)) continue
      const { files, isEmpty } = await this.#months.committer(month).writeFromReserve((tx) => {
        const { remove, part, clear, any } = sql(tx.db)
        const ids = new Set<number>()
        const hashes: Uint8Array[] = []
        for (const ref of ofMonth) {
          if (this.#recent.wasReused(ref)) {
            kept.push(ref)
            continue
          }
          const id = read.idOfRef(ref)
          const row = remove.get(id) ?? part.get(id)
          clear.run(id)
          if (row?.encoding === read.ENCODING.file) hashes.push(row.hash)
          ids.add(id)
        }
        // Runs inside the transaction: from here on the cache must not return the deleted blobs.
        for (const [key, id] of this.#cachedIds)
          if (ids.has(id) && key.startsWith(`${month} `)) this.#cachedIds.delete(key)
        return { files: hashes, isEmpty: any.get() === null }
      })
      for (const hash of files) this.#removeFile(month, hash)
      if (isEmpty && month < read.monthOf(now) && this.#writesByMonth.of(month) === 0) await this.#drop(month)
    }
    return kept
  }

  /** Whether blobs must stay for now, because a backup copies the store. */
  get isDeletionHeld(): boolean {
    return this.#isDeletionHeld()
  }

  /** Every month with blobs, with its first and last reference. */
  ranges(): { readonly month: number; readonly first: ContentRef; readonly last: ContentRef }[] {
    return this.#existingMonths().flatMap((month) => {
      const last = sql(this.#months.committer(month).db).last.get()?.id ?? 0
      return last === 0 ? [] : [{ month, first: read.toRef(month, 1), last: read.toRef(month, last) }]
    })
  }

  /** The committers of all months, opened if necessary: for the maintenance of the database files. */
  committers(): Committer[] {
    return this.#existingMonths().map((month) => this.#months.committer(month))
  }

  /** Months with a database that is not being dropped. */
  #existingMonths(): number[] {
    const months = new Set(readdirSync(this.#folder).map(read.parseMonthName))
    return [...months].filter(
      (month) => month !== undefined && existsSync(this.#months.path(month)) && !this.#dropping.has(month),
    ) as number[]
  }

  /**
   * Drops the months that ended before a time, with all their blobs; reading such a blob then throws MissingBlobError.
   * Drops nothing while deletion is held.
   * @returns number of dropped months
   */
  async dropMonthsBefore(time: Millis): Promise<number> {
    if (this.isDeletionHeld) return 0
    const first = read.monthOf(time)
    const old = [...new Set(readdirSync(this.#folder).map(read.parseMonthName))].filter(
      (month) => month !== undefined && month < first,
    )
    for (const month of old) if (month !== undefined && this.#writesByMonth.of(month) === 0) await this.#drop(month)
    return old.length
  }

  async #drop(month: number): Promise<void> {
    // A second one would see a database that the first still closes.
    if (this.#dropping.has(month)) return this.#dropping.get(month)
    const drop = this.#dropNow(month).finally(() => this.#dropping.delete(month))
    this.#dropping.set(
      month,
      drop.catch(() => undefined),
    )
    await drop
  }

  async #dropNow(month: number): Promise<void> {
    await this.#months.close(month)
    this.#reader.release(month)
    const names = readdirSync(this.#folder).filter((name) => read.parseMonthName(name) === month)
    const paths = names.map((name) => join(this.#folder, name))
    const database = this.#months.path(month)
    // The database is deleted first: otherwise a crash could leave rows for blobs whose files are deleted. With a replica
    // it goes in the same moment there: after a crash in between, pages would be written into a file that is gone.
    await this.#replica?.removeFiles(paths, () => rmSync(database, { force: true }))
    for (const path of [database, ...paths]) await rm(path, { recursive: true, force: true })
    await syncFolder(this.#folder)
    this.#cachedIds.clear()
  }

  #insert(db: Database, month: number, part: PackedBlob): number {
    const { find, insert } = sql(db)
    const isSmall = part.sizeBytes < MIN_INDEXED_BYTES
    const known = isSmall ? this.#cachedIds.get(cacheKey(month, part)) : find.get(part.hash)?.id
    const id = known ?? insert.get(part.hash, part.sizeBytes, part.encoding, part.data)?.id
    if (id === undefined) throw new Error('blob not stored')
    this.#recordRef(month, id, known !== undefined)
    return id
  }

  #recordRef(month: number, id: number, isKnown: boolean): void {
    if (isKnown) this.#recent.recordReused(read.toRef(month, id))
    else this.#recent.recordNew(month, id)
  }

  /**
   * The reference below which no blob of the month is new: every row that was going to reference one has been written.
   */
  settledBelow(month: number): ContentRef {
    return read.toRef(month, this.#recent.firstNew(month) ?? read.toRef(1, 0) - 1)
  }

  /**
   * Deletes files without a row, which a crash leaves when it occurs after the file was written and before its row was.
   * Scans once after the start, and again after a failure.
   * @param ending aborting it stops the scan
   */
  async removeOrphanFiles(ending?: AbortSignal): Promise<void> {
    if (!this.#mayHaveOrphans) return
    this.#mayHaveOrphans = false
    try {
      for (const name of await readdir(this.#folder)) {
        const month = read.parseMonthName(name)
        if (month === undefined || read.formatMonth(month) !== name) continue
        const files = await readdir(join(this.#folder, name))
        for (let from = 0; from < files.length; from += FILES_PER_BATCH) {
          ending?.throwIfAborted()
          for (const file of files.slice(from, from + FILES_PER_BATCH)) this.#removeIfOrphan(month, file)
          await yieldToEventLoop()
        }
      }
    } catch (error) {
      this.#mayHaveOrphans = true
      if (!ending?.aborted) throw error
    }
  }

  #removeIfOrphan(month: number, file: string): void {
    const [, hash, temporary] = /^([0-9a-f]{32})\.zst(\..*\.tmp)?$/.exec(file) ?? []
    const path = join(this.#folder, read.formatMonth(month), `${hash}.zst`)
    if (hash === undefined || this.#pendingFiles.of(path) > 0 || this.#dropping.has(month)) return
    // If the database is missing, a crash interrupted the deletion of the month, and the file is left over.
    if (temporary !== undefined || !existsSync(this.#months.path(month)))
      rmSync(`${path}${temporary ?? ''}`, { force: true })
    else this.#removeFile(month, Uint8Array.fromHex(hash))
  }

  /** Used after a failure, possibly of the disk: what cannot be deleted now is deleted by a later scan. */
  #removeOrphan(month: number, hash: Uint8Array): void {
    this.#mayHaveOrphans = true
    try {
      this.#removeFile(month, hash)
    } catch {
      // The first error is the one to report.
    }
  }

  /**
   * Deletes the file of a blob, unless the same blob is stored or is being stored again. Synchronous, so that no call
   * can store the blob between the check and the deletion.
   */
  #removeFile(month: number, hash: Uint8Array): void {
    const path = read.blobPath(this.#folder, month, hash)
    if (
      this.#pendingFiles.of(path) > 0 ||
      sql(this.#months.committer(month).db).find.get(hash)?.encoding === read.ENCODING.file
    )
      return
    try {
      rmSync(path, { force: true })
      void this.#replica?.removeFiles([path])
    } catch (error) {
      this.#mayHaveOrphans = true
      throw error
    }
  }

  /** Call only after the commit: an id of a failed group is invalid. */
  #cacheId(month: number, part: PackedBlob, id: number | undefined): void {
    if (id === undefined || part.sizeBytes >= MIN_INDEXED_BYTES) return
    if (this.#cachedIds.size >= MAX_CACHED_IDS) this.#cachedIds.clear()
    this.#cachedIds.set(cacheKey(month, part), id)
  }

  /** The open databases, for tests that fill them. */
  databases(): Database[] {
    return this.#months.databases()
  }

  async close(): Promise<void> {
    this.#reader.close()
    await this.#months.closeAll()
  }

  async #storeFile(part: Uint8Array, month: number, hash: Uint8Array): Promise<void> {
    const path = read.blobPath(this.#folder, month, hash)
    await this.#makeMonthFolder(month)
    if (!existsSync(path)) {
      const frames = await compressFrames(part)
      this.#disk?.countWritten(frames.length)
      await this.#replicateFile(month, hash, path, frames)
      await writeFileSynced(path, frames)
    }
    // Syncs the folder even if the file existed: its writer may not have synced the folder yet.
    await syncFolder(dirname(path))
  }

  /**
   * Stores a file elsewhere first, unless a row shows that it is there: so a file that a crash leaves without a row is
   * everywhere, or nowhere.
   * @param source its content, or a file with it
   */
  async #replicateFile(month: number, hash: Uint8Array, path: string, source: string | Uint8Array): Promise<void> {
    if (!this.#replica) return
    const known = sql(this.#months.committer(month).db).find.get(hash)
    if (known?.encoding !== read.ENCODING.file) await this.#replica.addFile(path, source)
  }

  /** Creates a month's folder and makes its entry durable. */
  async #makeMonthFolder(month: number): Promise<void> {
    const made = await mkdir(join(this.#folder, read.formatMonth(month)), { recursive: true, mode: 0o700 })
    if (made !== undefined) await syncFolder(this.#folder)
  }
}

const cacheKey = (month: number, part: PackedBlob): string => `${month} ${part.hash.toBase64()}`

/** The result has no data for a blob that goes into a file; `compressFrames` compresses such a blob. */
export function packBlob(part: Uint8Array): PackedBlob {
  const hash = sha256(part).subarray(0, read.HASH_BYTES)
  const sizeBytes = part.length
  if (sizeBytes > MAX_INLINE_BYTES) return { hash, sizeBytes, encoding: read.ENCODING.file, data: null }
  const data = sizeBytes >= MIN_COMPRESSED_BYTES ? Bun.zstdCompressSync(part, { level: ZSTD_LEVEL }) : part
  return data.length < sizeBytes
    ? { hash, sizeBytes, encoding: read.ENCODING.zstd, data }
    : { hash, sizeBytes, encoding: read.ENCODING.raw, data: part }
}

/** Compresses a large blob into consecutive frames, so that it can be read in chunks. */
export async function compressFrames(part: Uint8Array): Promise<Uint8Array> {
  const frames: Uint8Array[] = []
  for (let from = 0; from < part.length; from += FRAME_BYTES)
    frames.push(await Bun.zstdCompress(part.subarray(from, from + FRAME_BYTES), { level: ZSTD_LEVEL }))
  return Buffer.concat(frames)
}

/**
 * Maximum time between storing a blob and writing the row that references it: nothing but their commits happens in
 * between.
 */
const RECENT_MS = minutes(5)
/** Precision of the recorded times. */
const MARK_INTERVAL_MS = seconds(30)

/** When the blob with id `firstId`, and those after it, were stored. */
interface Mark {
  readonly atMs: number
  readonly firstId: number
}

type RecentBlobs = ReturnType<typeof createRecentBlobs>

/**
 * Tracks the blobs that were returned recently: the rows that will reference them may not exist yet. Uses the monotonic
 * clock, because the wall clock may jump. In memory only: a restart ends every request that could still write such a row.
 */
function createRecentBlobs(clock: Pick<Clock, 'monotonicMs'>) {
  /** Ordered by time. */
  const reusedAt = new Map<number, number>()
  const marks = new Map<number, Mark[]>()
  const evictOld = (): void => {
    const before = clock.monotonicMs() - RECENT_MS
    for (const [ref, atMs] of reusedAt) {
      if (atMs >= before) break
      reusedAt.delete(ref)
    }
    for (const [month, monthMarks] of marks) {
      while (monthMarks[0] !== undefined && monthMarks[0].atMs + MARK_INTERVAL_MS < before) monthMarks.shift()
      if (monthMarks.length === 0) marks.delete(month)
    }
  }
  return {
    /** Records an existing blob that was stored again. */
    recordReused(ref: number): void {
      evictOld()
      reusedAt.delete(ref)
      reusedAt.set(ref, clock.monotonicMs())
    },
    /** Records a new blob. */
    recordNew(month: number, id: number): void {
      const monthMarks = marks.get(month) ?? []
      const last = monthMarks.at(-1)
      if (last && clock.monotonicMs() - last.atMs < MARK_INTERVAL_MS) return
      evictOld()
      monthMarks.push({ atMs: clock.monotonicMs(), firstId: id })
      marks.set(month, monthMarks)
    },
    wasReused(ref: number): boolean {
      evictOld()
      return reusedAt.has(ref)
    },
    /**
     * The lowest id among a month's new blobs, whose referencing rows may not exist yet. Undefined: the month has no new
     * blobs.
     */
    firstNew(month: number): number | undefined {
      evictOld()
      return marks.get(month)?.[0]?.firstId
    },
  }
}
