/**
 * @module Spools arriving messages: small ones in memory, larger ones in a compressed file, so that remote clients
 * cannot exhaust memory. Runs in the listener's Worker, where blocking writes delay only clients; writes are
 * synchronous so that nothing queues up.
 *
 * A file is a sequence of zstd frames (RFC 8878 §3.1), one for each block: a compressor for a whole message would take
 * a megabyte, a block takes 64 KiB.
 */
import { closeSync, fdatasync, openSync, statfsSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { CompleteMessage } from '#features/receiving/received/message.ts'
import { HASH_BYTES } from '#platform/content/read.ts'
import { KiB, MiB } from '#platform/units.ts'

export interface SpoolOptions {
  readonly folder: string
  readonly filePrefix: string
  readonly inlineBytes: number
  readonly bufferBytes: number
  readonly spoolBytes: number
  /** Free disk space that the files must not use; 0: not checked. */
  readonly minFreeBytes: number
  readonly maxMessages: number
}

const ZSTD_LEVEL = 1
const MIN_BLOCK_BYTES = 4 * KiB
const MAX_BLOCK_BYTES = 64 * KiB
/** Octets written to files between two checks of the free space. */
const DISK_CHECK_BYTES = MiB

const sync = promisify(fdatasync)

export class Spool {
  readonly #options: SpoolOptions
  readonly #blockBytes: number
  readonly #state: SpoolState = {
    bufferedBytes: 0,
    spooledBytes: 0,
    uncheckedBytes: DISK_CHECK_BYTES,
    files: 0,
    open: new Set(),
  }

  constructor(options: SpoolOptions) {
    this.#options = options
    // Limits the blocks of all sessions with a file to about as much memory as the buffers.
    const blockBytes = Math.floor(options.bufferBytes / options.maxMessages)
    this.#blockBytes = Math.min(MAX_BLOCK_BYTES, Math.max(MIN_BLOCK_BYTES, blockBytes))
  }

  /** Starts a message. When files reach their limit, the network with the most data loses its largest message. */
  createEntry(network: string): SpoolEntry {
    return new SpoolEntry(this.#options, this.#blockBytes, this.#state, network)
  }
}

interface SpoolState {
  bufferedBytes: number
  spooledBytes: number
  /** Octets written since the last check of the free space. */
  uncheckedBytes: number
  files: number
  readonly open: Set<SpoolEntry>
}

/** An arriving message. It must be dropped unless it was finished. */
export class SpoolEntry {
  sizeBytes = 0
  readonly #options: SpoolOptions
  readonly #blockBytes: number
  readonly #state: SpoolState
  readonly #network: string
  /** The part in memory that precedes `#block`, as a list, because copying would leave garbage. */
  #fullBlocks: Uint8Array[] = []
  /** The end of a message in memory, or the octets that are not yet in the file. */
  #block: Uint8Array = new Uint8Array(0)
  #filledBytes = 0
  /** Octets of `bufferedBytes` that this message uses. */
  #countedBytes = 0
  #file: { readonly fd: number; readonly path: string; readonly hash: Bun.CryptoHasher } | undefined
  #writtenBytes = 0
  #failure: unknown
  #isHandedOver = false
  #isSyncing = false
  #isDropped = false

  constructor(options: SpoolOptions, blockBytes: number, state: SpoolState, network: string) {
    this.#network = network
    this.#options = options
    this.#blockBytes = blockBytes
    this.#state = state
  }

  /** Stores a copy. Never throws: `finish` rejects with the failure. */
  write(bytes: Uint8Array): void {
    if (this.#failure !== undefined || this.#isDropped) return
    this.sizeBytes += bytes.length
    try {
      if (!this.#file && this.sizeBytes > this.#options.inlineBytes) this.#open()
      this.#append(bytes)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** The complete message; a file is synced. Rejects with the system's error; ENOSPC at the limit of all files. */
  async finish(): Promise<CompleteMessage['content']> {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#isDropped) throw new Error('the message was dropped')
    const file = this.#file
    if (!file) {
      const bytes = new Uint8Array(
        Bun.concatArrayBuffers([...this.#fullBlocks, this.#block.subarray(0, this.#filledBytes)]),
      )
      // The memory stays counted until `drop`, because the main thread still holds it.
      this.#freeBuffers()
      return { kind: 'bytes', bytes }
    }
    try {
      this.#flush()
      this.#state.open.delete(this)
      this.#isSyncing = true
      await sync(file.fd)
    } catch (error) {
      this.#isSyncing = false
      this.#fail(error)
      throw error
    }
    this.#isSyncing = false
    if (this.#isDropped) {
      this.#close()
      throw new Error('the message was dropped')
    }
    closeSync(file.fd)
    this.#file = undefined
    this.#isHandedOver = true
    return {
      kind: 'file',
      path: file.path,
      hash: new Uint8Array(file.hash.digest()).subarray(0, HASH_BYTES),
    }
  }

  /** Frees memory, and deletes the file unless `finish` returned it. May be called again. */
  drop(): void {
    this.#isDropped = true
    this.#setCountedBytes(0)
    this.#freeBuffers()
    // If the file were closed now, another file could get the descriptor that is being synced.
    if (!this.#isSyncing) this.#close()
    if (this.#isHandedOver) this.#uncountFile()
  }

  #freeBuffers(): void {
    this.#fullBlocks = []
    this.#block = new Uint8Array(0)
    this.#filledBytes = 0
  }

  #setCountedBytes(bytes: number): void {
    this.#state.bufferedBytes += bytes - this.#countedBytes
    this.#countedBytes = bytes
  }

  /** Moves the message from memory into a file. */
  #open(): void {
    const path = join(this.#options.folder, `${this.#options.filePrefix}-${++this.#state.files}.zst`)
    this.#file = { fd: openSync(path, 'wx', 0o600), path, hash: new Bun.CryptoHasher('sha256') }
    this.#state.open.add(this)
    const buffered = [...this.#fullBlocks, this.#block.subarray(0, this.#filledBytes)]
    this.#fullBlocks = []
    this.#block = new Uint8Array(this.#blockBytes)
    this.#filledBytes = 0
    for (const part of buffered) this.#append(part)
    this.#setCountedBytes(0)
  }

  #append(bytes: Uint8Array): void {
    let from = 0
    while (from < bytes.length) {
      // Complete blocks need no copy.
      if (this.#file && this.#filledBytes === 0 && bytes.length - from >= this.#blockBytes) {
        this.#writeBlock(bytes.subarray(from, from + this.#blockBytes))
        from += this.#blockBytes
        continue
      }
      if (this.#filledBytes === this.#block.length) this.#ensureBuffer()
      const part = bytes.subarray(from, from + this.#block.length - this.#filledBytes)
      this.#block.set(part, this.#filledBytes)
      this.#filledBytes += part.length
      from += part.length
    }
  }

  /** Makes space for the next octets: in memory while the limit allows, then in a file. */
  #ensureBuffer(): void {
    if (this.#file) {
      this.#flush()
      return
    }
    // Doubles the memory, so that a large message has few blocks.
    const size = Math.min(MAX_BLOCK_BYTES, Math.max(MIN_BLOCK_BYTES, this.#countedBytes))
    if (this.#state.bufferedBytes + size > this.#options.bufferBytes) {
      this.#open()
      return
    }
    this.#setCountedBytes(this.#countedBytes + size)
    this.#fullBlocks.push(this.#block)
    this.#block = new Uint8Array(size)
    this.#filledBytes = 0
  }

  #flush(): void {
    if (this.#filledBytes > 0) this.#writeBlock(this.#block.subarray(0, this.#filledBytes))
    this.#filledBytes = 0
  }

  #writeBlock(block: Uint8Array): void {
    const file = this.#file
    if (!file) throw new Error('a block without a file')
    file.hash.update(block)
    const compressed = Bun.zstdCompressSync(block, { level: ZSTD_LEVEL })
    if (!this.#ensureFileCapacity(compressed.length)) throw createSpoolFullError()
    this.#requireDiskSpace(compressed.length)
    this.#state.spooledBytes += compressed.length
    this.#writtenBytes += compressed.length
    for (let written = 0; written < compressed.length; ) written += writeSync(file.fd, compressed, written)
  }

  /**
   * RCPT checks the free space too, but a message may have begun before the disk filled. An arriving message must not
   * use the space reserved for finishing accepted mail.
   */
  #requireDiskSpace(bytes: number): void {
    const { folder, minFreeBytes } = this.#options
    if (minFreeBytes === 0) return
    this.#state.uncheckedBytes += bytes
    if (this.#state.uncheckedBytes < DISK_CHECK_BYTES) return
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < minFreeBytes)
      throw Object.assign(new Error('free disk space is below the reserve'), { code: 'ENOSPC' })
    this.#state.uncheckedBytes = 0
  }

  /** Frees file space, from the network with the most data; false: it is this one. */
  #ensureFileCapacity(bytes: number): boolean {
    const { open } = this.#state
    while (this.#state.spooledBytes + bytes > this.#options.spoolBytes) {
      const perNetwork = new Map<string, number>()
      for (const message of open)
        perNetwork.set(message.#network, (perNetwork.get(message.#network) ?? 0) + message.#writtenBytes)
      const getNetworkBytes = ({ network }: { readonly network: string }): number => perNetwork.get(network) ?? 0
      const ownBytes = getNetworkBytes({ network: this.#network }) + bytes
      const [victim] = [...open]
        .map((message) => ({ message, network: message.#network, writtenBytes: message.#writtenBytes }))
        .filter((candidate) => getNetworkBytes(candidate) > ownBytes)
        .sort((a, b) => getNetworkBytes(b) - getNetworkBytes(a) || b.writtenBytes - a.writtenBytes)
      if (!victim) return false
      victim.message.#fail(createSpoolFullError())
    }
    return true
  }

  #fail(error: unknown): void {
    this.#failure = error
    this.drop()
  }

  #close(): void {
    const file = this.#file
    this.#file = undefined
    this.#state.open.delete(this)
    if (!file) return
    closeSync(file.fd)
    unlinkSync(file.path)
    this.#uncountFile()
  }

  #uncountFile(): void {
    this.#state.spooledBytes -= this.#writtenBytes
    this.#writtenBytes = 0
  }
}

const createSpoolFullError = (): Error => Object.assign(new Error('the spool is full'), { code: 'ENOSPC' })
