/**
 * @module Bodies and attachments, apart from the main database: `content/YYYY-MM.db`, identical parts once by hash, compressed, large ones as
 * files beside it. A part is durable before its reference is given out, so no row ever refers to what a power cut took. A part never changes:
 * it goes when nothing refers to it any more, or with its whole month.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Clock, giveWay, type Millis, systemClock } from '../clock.ts'
import type { Committer, CommitterOptions, WriteOptions } from '../db/commit.ts'
import { prepared } from '../db/open.ts'
import { insufficientStorage } from '../errors.ts'
import { Counts } from '../queue/counts.ts'
import { storageError } from '../storage-errors.ts'
import { createGivenIds, type GivenIds } from './given-ids.ts'
import { createMonths, type Months, SMALLEST_INDEXED_BYTES } from './months.ts'
import { createOnItsWay, type OnItsWay } from './on-its-way.ts'
import { framesOf, type PackedPart, packed } from './pack.ts'
import {
  type ContentReader,
  createContentReader,
  ENCODING,
  idOfRef,
  monthName,
  monthOfName,
  monthOfRef,
  partFile,
  refOf,
} from './read.ts'
import { syncFolder, writeFileSynced } from './synced-files.ts'

/** A part's place: month and row, in one integer. */
export type ContentRef = number

const MOST_REMEMBERED = 10_000
/** Files looked at without a turn for others. */
const FILES_AT_ONCE = 100

const sql = prepared((db) => ({
  find: db.prepare<{ id: number; encoding: number }, [Uint8Array]>(
    `SELECT id, encoding FROM parts WHERE hash = ? AND size_bytes >= ${SMALLEST_INDEXED_BYTES}`,
  ),
  remove: db.prepare<{ hash: Uint8Array; encoding: number }, [number]>(
    'DELETE FROM parts WHERE id = ? AND id < (SELECT max(id) FROM parts) RETURNING hash, encoding',
  ),
  part: db.prepare<{ hash: Uint8Array; encoding: number }, [number]>('SELECT hash, encoding FROM parts WHERE id = ?'),
  // The last row stays, empty: its id must not be given to another part.
  clear: db.prepare(
    `UPDATE parts SET hash = randomblob(16), encoding = ${ENCODING.gone}, size_bytes = 0, data = NULL WHERE id = ?`,
  ),
  any: db.prepare<{ id: number }, []>(`SELECT id FROM parts WHERE encoding <> ${ENCODING.gone} LIMIT 1`),
  last: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM parts'),
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

export interface PutOptions extends WriteOptions {
  readonly inTurn?: ((pack: () => PackedPart) => Promise<PackedPart>) | undefined
}

export class ContentStore {
  readonly #folder: string
  readonly #onItsWay: OnItsWay
  readonly #given: GivenIds
  readonly #months: Months
  readonly #disk: CommitterOptions['disk']
  readonly #reader: ContentReader
  /** Small parts stored lately: hash and month -> row. */
  readonly #remembered = new Map<string, number>()
  /** Who stores into a month at the moment. */
  readonly #storing = new Counts()
  readonly #dropping = new Map<number, Promise<void>>()
  /** A crash may have left files without a row, and so may a failure. */
  #mayHaveStrays = true
  /** Files that a part is being stored in, by path, until its row is on disk. */
  readonly #filling = new Counts<string>()

  /** @param folder made when it is missing */
  constructor(
    folder: string,
    options: CommitterOptions & { readonly clock?: Pick<Clock, 'monotonicMs' | 'sleep'> } = {},
  ) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#folder = folder
    this.#given = createGivenIds(`${folder}.ids`)
    this.#months = createMonths(folder, this.#given, options)
    this.#disk = options.disk
    this.#onItsWay = createOnItsWay(options.clock ?? systemClock)
    this.#reader = createContentReader(folder)
  }

  /**
   * Stores parts and resolves with their references, in order, once they are on disk. A full disk rejects with 507.
   * @param options.inTurn runs the packing of a part, some milliseconds where it is large, when its turn comes; left out: at once
   */
  async put(parts: readonly Uint8Array[], now: Millis, options: PutOptions = {}): Promise<ContentRef[]> {
    if (parts.length === 0) return []
    const { inTurn } = options
    return this.#storingIn(monthOf(now), async (month, fill) => {
      const committer = this.#months.committer(month)
      const ready: PackedPart[] = []
      for (const part of parts) {
        const prepared = inTurn ? await inTurn(() => packed(part)) : packed(part)
        ready.push(prepared)
        if (prepared.encoding !== ENCODING.file) continue
        await this.#requireRoom(part, options)
        fill(prepared.hash)
        await this.#storeFile(part, month, prepared.hash)
      }
      const ids = await committer.write((tx) => ready.map((part) => this.#insert(tx.db, month, part)), options)
      this.#given.note(month, Math.max(...ids))
      for (const [index, part] of ready.entries()) this.#remember(month, part, ids[index])
      return ids.map((id) => refOf(month, id))
    })
  }

  /**
   * Takes a finished file as a part, without reading it: the file moves to its place, which must be on the same file system, or goes when the same
   * part is there. Resolves with its reference once it is on disk. A full disk rejects with 507; whether the file is still there is then open.
   */
  async adopt({ path, hash, sizeBytes }: FinishedFile, now: Millis, writing: WriteOptions = {}): Promise<ContentRef> {
    return this.#storingIn(monthOf(now), async (month, fill) => {
      const target = fill(hash)
      const committer = this.#months.committer(month)
      await this.#makeMonthFolder(month)
      // Over the same part, if it is there: what is in it is the same.
      await rename(path, target)
      await syncFolder(dirname(target))
      const { id, isInline } = await committer.write((tx) => {
        const { find, insert } = sql(tx.db)
        const known = find.get(hash)
        const row = known ?? insert.get(hash, sizeBytes, ENCODING.file, null)
        if (!row) throw new Error('a content part was not stored')
        this.#give(month, row.id, known !== null)
        return { id: row.id, isInline: known !== null && known.encoding !== ENCODING.file }
      }, writing)
      this.#given.note(month, id)
      // What the database holds needs no file.
      if (isInline) await rm(target, { force: true })
      return refOf(month, id)
    })
  }

  /** Before a file is written; rows are the Committer's to refuse. Throws 507 when the part would touch what is reserved of the disk. */
  async #requireRoom(part: Uint8Array, { mayUseReserve }: WriteOptions): Promise<void> {
    if (!this.#disk || mayUseReserve) return
    await this.#disk.refresh()
    if (!this.#disk.hasRoomFor(part.length)) throw insufficientStorage()
  }

  /** What is stored into a month, which nobody drops meanwhile. When it fails, the files that it made go; errors of a full disk become 507. */
  async #storingIn<T>(
    month: number,
    store: (month: number, fill: (hash: Uint8Array) => string) => Promise<T>,
  ): Promise<T> {
    await this.#dropping.get(month)
    this.#storing.add(month, 1)
    const filling = new Map<string, Uint8Array>()
    const end = (): void => {
      for (const path of filling.keys()) this.#filling.add(path, -1)
      this.#storing.add(month, -1)
    }
    try {
      const stored = await store(month, (hash) => {
        const path = partFile(this.#folder, month, hash)
        if (!filling.has(path)) this.#filling.add(path, 1)
        filling.set(path, hash)
        return path
      })
      end()
      return stored
    } catch (error) {
      end()
      for (const hash of filling.values()) this.#removeStray(month, hash)
      throw storageError(error)
    }
  }

  /**
   * Removes parts that nothing refers to any more, with their files; a month of before `now` that has none left goes as a whole. One that `put` or `adopt`
   * gave out again within the last minutes stays, since what refers to it may not be written yet. Of new ones no row has let go: `settledBelow`.
   * @returns those that stay
   */
  async forget(refs: readonly ContentRef[], now: Millis): Promise<ContentRef[]> {
    const kept: ContentRef[] = []
    for (const [month, ofMonth] of Map.groupBy(refs, monthOfRef)) {
      if (!existsSync(this.#months.path(month)) || this.#dropping.has(month)) continue
      const { files, isEmpty } = await this.#months.committer(month).writeFromReserve((tx) => {
        const { remove, part, clear, any } = sql(tx.db)
        const ids = new Set<number>()
        const hashes: Uint8Array[] = []
        for (const ref of ofMonth) {
          if (this.#onItsWay.wasGivenAgain(ref)) {
            kept.push(ref)
            continue
          }
          const id = idOfRef(ref)
          const row = remove.get(id) ?? part.get(id)
          clear.run(id)
          if (row?.encoding === ENCODING.file) hashes.push(row.hash)
          ids.add(id)
        }
        // Inside the transaction: from here on nobody is given one of them.
        for (const [key, id] of this.#remembered)
          if (ids.has(id) && key.startsWith(`${month} `)) this.#remembered.delete(key)
        return { files: hashes, isEmpty: any.get() === null }
      })
      for (const hash of files) this.#removeFile(month, hash)
      if (isEmpty && month < monthOf(now) && this.#storing.of(month) === 0) await this.#drop(month)
    }
    return kept
  }

  /** The month of every database that there is, with its references from the first to the last; `@returns` none of a month without parts. */
  ranges(): { readonly month: number; readonly first: ContentRef; readonly last: ContentRef }[] {
    return this.#present().flatMap((month) => {
      const last = sql(this.#months.committer(month).db).last.get()?.id ?? 0
      return last === 0 ? [] : [{ month, first: refOf(month, 1), last: refOf(month, last) }]
    })
  }

  /** The committers of all months, opened if need be: for upkeep of their files. */
  committers(): Committer[] {
    return this.#present().map((month) => this.#months.committer(month))
  }

  /** Months with a database that stays. */
  #present(): number[] {
    const months = new Set(readdirSync(this.#folder).map(monthOfName))
    return [...months].filter(
      (month) => month !== undefined && existsSync(this.#months.path(month)) && !this.#dropping.has(month),
    ) as number[]
  }

  /**
   * Drops the months that ended before a time, with all that is in them: whoever asks for one of their parts is told that it is missing.
   * @returns how many
   */
  async dropMonthsBefore(time: Millis): Promise<number> {
    const first = monthOf(time)
    const old = [...new Set(readdirSync(this.#folder).map(monthOfName))].filter(
      (month) => month !== undefined && month < first,
    )
    for (const month of old) if (month !== undefined && this.#storing.of(month) === 0) await this.#drop(month)
    return old.length
  }

  async #drop(month: number): Promise<void> {
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
    const names = readdirSync(this.#folder).filter((name) => monthOfName(name) === month)
    // The database before its files: rows without files would lie about what is there.
    for (const name of names.sort((a, b) => Number(b.endsWith('.db')) - Number(a.endsWith('.db'))))
      await rm(join(this.#folder, name), { recursive: true, force: true })
    await syncFolder(this.#folder)
    this.#remembered.clear()
  }

  #insert(db: Database, month: number, part: PackedPart): number {
    const { find, insert } = sql(db)
    const isSmall = part.sizeBytes < SMALLEST_INDEXED_BYTES
    const known = isSmall ? this.#remembered.get(rememberedKey(month, part)) : find.get(part.hash)?.id
    const id = known ?? insert.get(part.hash, part.sizeBytes, part.encoding, part.data)?.id
    if (id === undefined) throw new Error('a content part was not stored')
    this.#give(month, id, known !== undefined)
    return id
  }

  #give(month: number, id: number, isKnown: boolean): void {
    if (isKnown) this.#onItsWay.giveAgain(refOf(month, id))
    else this.#onItsWay.giveNew(month, id)
  }

  /** Every part of a month below this reference has its row by now, if it is to have one. */
  settledBelow(month: number): ContentRef {
    return refOf(month, this.#onItsWay.firstNew(month) ?? refOf(1, 0) - 1)
  }

  /**
   * Removes files that no part has: a crash came between the two. Looks once after the start, and again after a failure.
   * @param ending no further file is looked at once it is aborted
   */
  async removeStrays(ending?: AbortSignal): Promise<void> {
    if (!this.#mayHaveStrays) return
    this.#mayHaveStrays = false
    try {
      for (const name of await readdir(this.#folder)) {
        const month = monthOfName(name)
        if (month === undefined || monthName(month) !== name) continue
        const files = await readdir(join(this.#folder, name))
        for (let from = 0; from < files.length; from += FILES_AT_ONCE) {
          ending?.throwIfAborted()
          for (const file of files.slice(from, from + FILES_AT_ONCE)) this.#removeIfStray(month, file)
          await giveWay()
        }
      }
    } catch (error) {
      this.#mayHaveStrays = true
      if (!ending?.aborted) throw error
    }
  }

  #removeIfStray(month: number, file: string): void {
    const [, hash, temporary] = /^([0-9a-f]{32})\.zst(\..*\.tmp)?$/.exec(file) ?? []
    const path = join(this.#folder, monthName(month), `${hash}.zst`)
    if (hash === undefined || this.#filling.of(path) > 0 || this.#dropping.has(month)) return
    // Of a month that was being dropped the files may be left.
    if (temporary !== undefined || !existsSync(this.#months.path(month)))
      rmSync(`${path}${temporary ?? ''}`, { force: true })
    else this.#removeFile(month, Uint8Array.fromHex(hash))
  }

  /** After a failure, which may be of the disk: what cannot be removed now is looked for later. */
  #removeStray(month: number, hash: Uint8Array): void {
    this.#mayHaveStrays = true
    try {
      this.#removeFile(month, hash)
    } catch {
      // The error that is told is the first one.
    }
  }

  /** Unless the same part is stored again by now. In one piece: nothing may come between the look and the removal. */
  #removeFile(month: number, hash: Uint8Array): void {
    const path = partFile(this.#folder, month, hash)
    if (this.#filling.of(path) > 0 || sql(this.#months.committer(month).db).find.get(hash)?.encoding === ENCODING.file)
      return
    try {
      rmSync(path, { force: true })
    } catch (error) {
      this.#mayHaveStrays = true
      throw error
    }
  }

  /** Only after the commit: an id of a group that failed leads nowhere. */
  #remember(month: number, part: PackedPart, id: number | undefined): void {
    if (id === undefined || part.sizeBytes >= SMALLEST_INDEXED_BYTES) return
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(rememberedKey(month, part), id)
  }

  /** The month that parts of a time are stored in. */
  monthOf(time: Millis): number {
    return monthOf(time)
  }

  /** A part's bytes. Throws MissingPart when the reference leads nowhere. */
  get(ref: ContentRef): Uint8Array {
    return this.#reader.get(ref)
  }

  /** The same in pieces of at most 256 KiB, read as they are asked for, without `skipBytes` at the beginning. Throws as `get` does, at once. */
  slices(ref: ContentRef, skipBytes = 0): Iterable<Uint8Array> {
    return this.#reader.slices(ref, skipBytes)
  }

  /** Whether a part is there, without a look at what is in it. */
  has(ref: ContentRef): boolean {
    return this.#reader.has(ref)
  }

  /** The databases of the months in use, for tests that fill them. */
  databases(): Database[] {
    return this.#months.databases()
  }

  async close(): Promise<void> {
    this.#reader.close()
    await this.#months.closeAll()
  }

  async #storeFile(part: Uint8Array, month: number, hash: Uint8Array): Promise<void> {
    const path = partFile(this.#folder, month, hash)
    await this.#makeMonthFolder(month)
    if (!existsSync(path)) {
      const frames = await framesOf(part)
      this.#disk?.countWritten(frames.length)
      await writeFileSynced(path, frames)
    }
    // Also when the file was there: who wrote it may not have come to this yet.
    await syncFolder(dirname(path))
  }

  /** The folder for the files of a month, with its own entry durable. */
  async #makeMonthFolder(month: number): Promise<void> {
    const made = await mkdir(join(this.#folder, monthName(month)), { recursive: true, mode: 0o700 })
    if (made !== undefined) await syncFolder(this.#folder)
  }
}

const rememberedKey = (month: number, part: PackedPart): string => `${month} ${part.hash.toBase64()}`

const monthOf = (now: Millis): number => {
  const date = new Date(now)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}
