/**
 * @module The replica of a node that leads: puts commits and files of its data directory into the log, and records about
 * once a second up to where the directory itself has them on disk.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { relative, sep } from 'node:path'
import type { Replica, WalReplica } from '../db/replica.ts'
import { type Entry, isReplicatedPath, ROW_BYTES, type WalPosition } from './entries.ts'
import { type Position, writePosition, writePositionLater } from './position.ts'
import { hasWals } from './recover.ts'
import { WalTail } from './wal-tail.ts'
import type { LogWriter } from './writer.ts'

const NO_BYTES = new Uint8Array(0)

export class Leader implements Replica {
  readonly writer: LogWriter
  readonly isEstablished: boolean
  readonly #dataDir: string
  readonly #tails = new Map<string, WalTail>()
  /** Up to where each write-ahead log is in the log of the cluster, also of databases that were closed since. */
  readonly #ends = new Map<string, WalPosition>()
  #position: Position
  #uploads = 0

  /** @param position of the directory when it became the leader's; its databases have no write-ahead logs */
  constructor(dataDir: string, position: Position, writer: LogWriter) {
    this.#dataDir = dataDir
    this.#position = position
    this.isEstablished = position.seq > 0
    this.writer = writer
  }

  openWal(path: string): WalReplica {
    const file = this.#toFile(path)
    const tail = new WalTail(path, file)
    this.#tails.set(file, tail)
    let last: Promise<void> = Promise.resolve()
    let waiting = 0
    return {
      store: () => {
        const entries = tail.read()
        if (entries.length === 0) return last
        waiting++
        const end = tail.position
        last = this.writer.add(entries, () => {
          waiting--
          this.#ends.set(file, end)
        })
        // Whoever waits for it meets the failure.
        last.catch(() => undefined)
        return last
      },
      get isStored() {
        return waiting === 0 && !tail.hasMore
      },
      scrub: (pages) => this.#add({ kind: 'scrub', file, pages, bytes: NO_BYTES }),
      close: () => {
        this.#tails.delete(file)
        tail.close()
      },
    }
  }

  async addFile(path: string, source: string | Uint8Array): Promise<void> {
    const file = this.#toFile(path)
    const upload = ++this.#uploads
    const fd = typeof source === 'string' ? openSync(source, 'r') : undefined
    try {
      for (let offset = 0, isLast = false; !isLast; offset += ROW_BYTES) {
        const bytes =
          typeof source === 'string' ? readPart(fd ?? -1, offset) : source.subarray(offset, offset + ROW_BYTES)
        isLast = bytes.length < ROW_BYTES
        await this.writer.add([{ kind: 'part', file, upload, offset, isLast, bytes }])
      }
    } finally {
      if (fd !== undefined) closeSync(fd)
    }
  }

  replaceFile(path: string, content: string): void {
    void this.#add({ kind: 'file', file: this.#toFile(path), bytes: Buffer.from(content) })
  }

  removeFiles(paths: readonly string[], onStored?: () => void): Promise<void> {
    const files = paths.map((path) => this.#toFile(path))
    return this.#add({ kind: 'remove', files, bytes: NO_BYTES }, onStored)
  }

  /** Records on disk up to where this directory has the log. */
  async savePosition(): Promise<void> {
    const { stored } = this.writer
    if (stored.seq === this.#position.seq) return
    const position = { ...this.#position, ...stored, wals: Object.fromEntries(this.#ends) }
    for (const tail of this.#tails.values()) await tail.sync()
    await writePositionLater(this.#dataDir, position)
    this.#position = position
  }

  /**
   * Records that the directory is at the end of the log, after everything was stored and closed. A write-ahead log that is
   * still there, because another process read the database, is cut and emptied by the next start.
   */
  settle(): void {
    const left = hasWals(this.#dataDir)
    const wals = left ? Object.fromEntries(this.#ends) : {}
    const epoch = left ? this.#position.epoch : 0
    this.#position = { ...this.#position, ...this.writer.stored, epoch, wals }
    writePosition(this.#dataDir, this.#position)
  }

  /** What the directory has on its disk. */
  get savedSeq(): number {
    return this.#position.seq
  }

  #add(entry: Entry, onStored?: () => void): Promise<void> {
    const stored = this.writer.add([entry], onStored)
    // A failure ends the process.
    stored.catch(() => undefined)
    return stored
  }

  #toFile(path: string): string {
    const file = relative(this.#dataDir, path).split(sep).join('/')
    if (!isReplicatedPath(file)) throw new Error(`${file} is not a file of the log`)
    return file
  }
}

function readPart(fd: number, offset: number): Uint8Array {
  const part = Buffer.allocUnsafe(ROW_BYTES)
  return part.subarray(0, readSync(fd, part, 0, ROW_BYTES, offset))
}
