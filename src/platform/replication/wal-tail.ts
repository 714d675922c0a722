/**
 * @module Reads what commits have added to a write-ahead log of SQLite (https://sqlite.org/walformat.html). How far the
 * log goes says the header of its index, the file `-shm`; frames behind that may be left over from a commit that failed.
 * Remembers how far it has read; the log begins anew, with other salts, once all of it is in the database.
 */
import { closeSync, fdatasync, openSync, readSync } from 'node:fs'
import { promisify } from 'node:util'
import { type Entry, ROW_BYTES, type WalPosition } from './entries.ts'

const HEADER_BYTES = 32
export const FRAME_HEADER_BYTES = 24
/** Of the index header, with integers in the byte order of the machine, which is little-endian wherever Bun runs. */
const INDEX_HEADER_BYTES = 48
const PAGE_BYTES_AT = 14
const FRAMES_AT = 16
const DATABASE_PAGES_AT = 20
const SALTS_AT = 32

const sync = promisify(fdatasync)

export class WalTail {
  readonly #file: string
  readonly #wal: number
  /** Open as long as the database: closing any descriptor of the file would release SQLite's locks on it. */
  readonly #index: number
  readonly #indexHeader = Buffer.alloc(2 * INDEX_HEADER_BYTES)
  #position: WalPosition = { salt: '', end: HEADER_BYTES }

  /** @param file path of the database in the data directory */
  constructor(path: string, file: string) {
    this.#file = file
    this.#wal = openSync(`${path}-wal`, 'r')
    this.#index = openSync(`${path}-shm`, 'r')
  }

  /** How far it has read. */
  get position(): WalPosition {
    return this.#position
  }

  /** Whether commits have added something since. */
  get hasMore(): boolean {
    const { from, to } = this.#findNew()
    return to > from
  }

  /** The pages that commits have added, in entries of about ROW_BYTES; empty when there are none. */
  read(): Entry[] {
    const { from, to, pageBytes, databasePages, salt } = this.#findNew()
    const entries: Entry[] = []
    const frameBytes = FRAME_HEADER_BYTES + pageBytes
    const stepBytes = frameBytes * Math.max(1, Math.floor(ROW_BYTES / frameBytes))
    for (let at = from; at < to; at += stepBytes) {
      const end = Math.min(at + stepBytes, to)
      const bytes = readAt(this.#wal, Buffer.allocUnsafe(end - at), at)
      entries.push({ kind: 'pages', file: this.#file, pageBytes, databasePages, wal: { salt, end }, bytes })
    }
    this.#position = { salt, end: to }
    return entries
  }

  /** Makes what has been read durable here. */
  sync(): Promise<void> {
    return sync(this.#wal)
  }

  /** Call it after the database was closed. */
  close(): void {
    closeSync(this.#wal)
    closeSync(this.#index)
  }

  #findNew() {
    const header = this.#readHeader()
    const pageBytes = header.readUInt16LE(PAGE_BYTES_AT)
    const frames = header.readUInt32LE(FRAMES_AT)
    const salt = header.toString('hex', SALTS_AT, SALTS_AT + 8)
    return {
      salt,
      from: salt === this.#position.salt ? this.#position.end : HEADER_BYTES,
      to: HEADER_BYTES + frames * (FRAME_HEADER_BYTES + pageBytes),
      pageBytes,
      databasePages: header.readUInt32LE(DATABASE_PAGES_AT),
    }
  }

  /** The header is there twice; both copies are equal unless a thread is writing it at this moment (2.1). */
  #readHeader(): Buffer {
    for (;;) {
      const both = readAt(this.#index, this.#indexHeader, 0)
      const first = both.subarray(0, INDEX_HEADER_BYTES)
      if (first.equals(both.subarray(INDEX_HEADER_BYTES))) return first
    }
  }
}

function readAt(fd: number, bytes: Buffer, offset: number): Buffer {
  for (let filled = 0; filled < bytes.length; ) {
    const read = readSync(fd, bytes, filled, bytes.length - filled, offset + filled)
    if (read === 0) throw new Error('a write-ahead log is shorter than its index says')
    filled += read
  }
  return bytes
}
