/**
 * @module Spools arriving messages: small ones in memory, larger ones in a compressed file, so that remote clients
 * cannot exhaust memory. Runs in the listener's Worker, where blocking writes delay only clients; writes are
 * synchronous so that nothing queues up.
 */
import { statfsSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { CompleteMessage } from '#features/receiving/received/message.ts'
import { type BlobFile, createBlobFile } from '#platform/content/blob-file.ts'
import { Counts } from '#platform/queue/counts.ts'
import { KiB, MiB } from '#platform/units.ts'
import type { ListenerSettings } from './protocol.ts'

/**
 * Fraction of the free space for files that one network may use: a quarter of the whole if it is the only one, less the
 * more there are, so that a newcomer always gets some.
 */
const MAX_FRACTION_PER_NETWORK = 1 / 3
/** Memory of each file: 16 MiB for all sessions. */
const FILE_BLOCK_BYTES = 32 * KiB
/** Octets written to files between two checks of the free space. */
const DISK_CHECK_BYTES = MiB

export class Spool {
  readonly #settings: ListenerSettings
  bufferedBytes = 0
  /** Octets in files, by network. */
  readonly fileBytes = new Counts<string>()
  #uncheckedBytes = DISK_CHECK_BYTES
  #files = 0

  constructor(settings: ListenerSettings) {
    this.#settings = settings
  }

  createEntry(network: string): SpoolEntry {
    return new SpoolEntry(this, network)
  }

  /** Whether a message of this size, with so many octets not buffered yet, may stay in memory. */
  fitsMemory(sizeBytes: number, newBytes: number): boolean {
    const { inlineBytes, bufferBytes } = this.#settings.limits
    return sizeBytes <= inlineBytes && this.bufferedBytes + newBytes <= bufferBytes
  }

  nextPath(): string {
    const { spoolFolder, filePrefix } = this.#settings
    return join(spoolFolder, `${filePrefix}-${++this.#files}.zst`)
  }

  /**
   * Counts octets that are written to a file. Throws ENOSPC when the files have no space, for all or for this network,
   * or would use the space reserved for finishing accepted mail: RCPT checks that too, but the message may have begun
   * before the disk filled.
   */
  takeFileSpace(network: string, bytes: number): void {
    const { spoolFolder, minFreeBytes, limits } = this.#settings
    const freeBytes = limits.spoolBytes - this.fileBytes.total - bytes
    if (this.fileBytes.of(network) + bytes > freeBytes * MAX_FRACTION_PER_NETWORK)
      throw createNoSpaceError('the spool is full')
    this.#uncheckedBytes += bytes
    if (minFreeBytes > 0 && this.#uncheckedBytes >= DISK_CHECK_BYTES) {
      const { bavail, bsize } = statfsSync(spoolFolder)
      if (bavail * bsize < minFreeBytes) throw createNoSpaceError('free disk space is below the reserve')
      this.#uncheckedBytes = 0
    }
    this.fileBytes.add(network, bytes)
  }
}

const createNoSpaceError = (reason: string): Error => Object.assign(new Error(reason), { code: 'ENOSPC' })

/** An arriving message. It must be dropped, also after it was finished. */
export class SpoolEntry {
  sizeBytes = 0
  readonly #spool: Spool
  readonly #network: string
  #memory = new Bun.ArrayBufferSink()
  #bufferedBytes = 0
  #file: { readonly path: string; readonly blob: BlobFile } | undefined
  #fileBytes = 0
  #failure: unknown
  #isSyncing = false
  #isDropped = false

  constructor(spool: Spool, network: string) {
    this.#spool = spool
    this.#network = network
  }

  /** Stores a copy. Never throws: `finish` rejects with the failure. */
  write(bytes: Uint8Array): void {
    if (this.#isDropped) return
    this.sizeBytes += bytes.length
    if (!this.#file && this.#spool.fitsMemory(this.sizeBytes, bytes.length)) {
      this.#memory.write(bytes)
      this.#countBuffered(bytes.length)
      return
    }
    try {
      if (!this.#file) this.#moveToFile()
      this.#writeToFile(bytes)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** The complete message; a file is synced. Rejects with the system's error; ENOSPC at the limits of files. */
  async finish(): Promise<CompleteMessage['content']> {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#isDropped) throw new Error('the message was dropped')
    // The memory stays counted until `drop`, because the main thread still holds it.
    if (!this.#file) return { kind: 'bytes', bytes: this.#takeBuffered() }
    this.#isSyncing = true
    try {
      const { path, hash } = await this.#file.blob.finishInBackground()
      this.#isSyncing = false
      if (this.#isDropped) throw new Error('the message was dropped')
      this.#file = undefined
      return { kind: 'file', path, hash }
    } catch (error) {
      this.#isSyncing = false
      this.#fail(error)
      throw error
    }
  }

  /** Frees memory, and deletes the file unless `finish` returned it. May be called again. */
  drop(): void {
    this.#isDropped = true
    this.#takeBuffered()
    this.#countBuffered(-this.#bufferedBytes)
    this.#spool.fileBytes.add(this.#network, -this.#fileBytes)
    this.#fileBytes = 0
    // If the file were closed now, another file could get the descriptor that is being synced.
    if (!this.#file || this.#isSyncing) return
    this.#file.blob.close()
    unlinkSync(this.#file.path)
    this.#file = undefined
  }

  #takeBuffered(): Uint8Array {
    const buffered = this.#memory.end()
    this.#memory = new Bun.ArrayBufferSink()
    return new Uint8Array(buffered as ArrayBuffer)
  }

  #countBuffered(change: number): void {
    this.#bufferedBytes += change
    this.#spool.bufferedBytes += change
  }

  #moveToFile(): void {
    const path = this.#spool.nextPath()
    this.#file = { path, blob: createBlobFile(path, FILE_BLOCK_BYTES) }
    const buffered = this.#takeBuffered()
    this.#countBuffered(-this.#bufferedBytes)
    this.#writeToFile(buffered)
  }

  #writeToFile(bytes: Uint8Array): void {
    this.#spool.takeFileSpace(this.#network, bytes.length)
    this.#fileBytes += bytes.length
    this.#file?.blob.write(bytes)
  }

  #fail(error: unknown): void {
    this.#failure = error
    this.drop()
  }
}
