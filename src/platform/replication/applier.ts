/**
 * @module Writes the entries of the log into the files of a standby, in the order of the log. Opens no database with
 * SQLite: pages go to their places in the file, so that the directory of a standby is what a checkpoint would have left
 * at the leader. A standby that is killed in the middle of a group applies the group again.
 */
import {
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { syncFolder } from '#platform/content/synced-files.ts'
import { zeroPages } from '#platform/db/scrub.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import type { Entry } from './entries.ts'
import { FRAME_HEADER_BYTES } from './wal-tail.ts'

const sync = promisify(fdatasync)

export class Applier {
  readonly #dataDir: string
  /** Databases that are open, by path. */
  readonly #databases = new Map<string, number>()
  readonly #changed = new Set<string>()
  readonly #changedFolders = new Set<string>()

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  apply(entry: Entry): void {
    if (entry.kind === 'pages') this.#writePages(entry)
    else if (entry.kind === 'part') this.#writePart(entry)
    else if (entry.kind === 'remove') for (const file of entry.files) this.#remove(file)
    else if (entry.kind === 'scrub') {
      // The month was dropped while it was scrubbed.
      if (!existsSync(this.#toPath(entry.file))) return
      this.#changed.add(entry.file)
      zeroPages(this.#open(entry.file), entry.pages)
    } else {
      mkdirSync(dirname(this.#toPath(entry.file)), { recursive: true, mode: 0o700 })
      replaceFileSync(this.#toPath(entry.file), Buffer.from(entry.bytes).toString())
    }
  }

  /** Resolves when everything applied so far is on disk. */
  async sync(): Promise<void> {
    const files = [...this.#changed]
    const folders = [...this.#changedFolders]
    this.#changed.clear()
    this.#changedFolders.clear()
    for (const file of files) {
      const fd = this.#databases.get(file)
      if (fd !== undefined) await sync(fd)
    }
    for (const folder of folders) if (existsSync(folder)) await syncFolder(folder)
  }

  close(): void {
    for (const fd of this.#databases.values()) closeSync(fd)
    this.#databases.clear()
  }

  #toPath(file: string): string {
    return join(this.#dataDir, file)
  }

  #open(file: string): number {
    let fd = this.#databases.get(file)
    if (fd === undefined) {
      const path = this.#toPath(file)
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
      this.#changedFolders.add(dirname(path))
      this.#databases.set(file, fd)
    }
    return fd
  }

  #writePages({ file, pageBytes, databasePages, bytes }: Entry & { kind: 'pages' }): void {
    const fd = this.#open(file)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    for (let at = 0; at < bytes.length; at += FRAME_HEADER_BYTES + pageBytes) {
      const page = view.getUint32(at)
      const from = at + FRAME_HEADER_BYTES
      // A later commit of the same entry may have made the database smaller.
      if (page <= databasePages) writeAll(fd, bytes.subarray(from, from + pageBytes), (page - 1) * pageBytes)
    }
    if (fstatSync(fd).size > databasePages * pageBytes) ftruncateSync(fd, databasePages * pageBytes)
    this.#changed.add(file)
  }

  #writePart({ file, upload, offset, isLast, bytes }: Entry & { kind: 'part' }): void {
    const path = this.#toPath(file)
    const temporary = `${path}.${Number(upload)}.tmp`
    // A snapshot that began between two parts has the whole file, or the file was given up.
    if (offset > 0 && !existsSync(temporary)) return
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const fd = openSync(temporary, offset === 0 ? 'w' : 'r+', 0o600)
    try {
      writeAll(fd, bytes, offset)
      // A position between two parts may be recorded.
      fdatasyncSync(fd)
    } finally {
      closeSync(fd)
    }
    if (!isLast) return
    renameSync(temporary, path)
    this.#changedFolders.add(dirname(path))
  }

  #remove(file: string): void {
    const fd = this.#databases.get(file)
    if (fd !== undefined) closeSync(fd)
    this.#databases.delete(file)
    this.#changed.delete(file)
    rmSync(this.#toPath(file), { recursive: true, force: true })
    this.#changedFolders.add(dirname(this.#toPath(file)))
  }
}

function writeAll(fd: number, bytes: Uint8Array, offset: number): void {
  for (let written = 0; written < bytes.length; )
    written += writeSync(fd, bytes, written, bytes.length - written, offset + written)
}
