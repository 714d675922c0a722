/**
 * @module Messages while they arrive: small ones in memory, larger ones in a compressed file, so that memory stays
 * small whatever remote clients send. Runs in the listener's Worker, where a write that waits for the disk holds up
 * only them; that is why writes are synchronous: nothing can pile up before them.
 *
 * A file is a row of zstd frames (RFC 8878 §3.1), one for each block: a compressor that lives as long as a message
 * costs a megabyte, a block 64 KiB.
 */
import { closeSync, fdatasync, openSync, statfsSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TakenMessage } from '#features/receiving/received/message.ts'
import { KiB, MiB } from '#platform/units.ts'

export interface SpoolOptions {
  readonly folder: string
  readonly filePrefix: string
  readonly inlineBytes: number
  readonly bufferBytes: number
  readonly spoolBytes: number
  /** Free disk space that files leave; 0: the system is not asked. */
  readonly minFreeBytes: number
  /** Messages that may arrive at the same time. */
  readonly maxMessages: number
}

export interface Spool {
  /** A new message from a network. When files are at their limit, the network with most of them loses its largest. */
  begin(network: string): Draft
}

/** A message that arrives. One that is not finished must be dropped. */
export interface Draft {
  readonly sizeBytes: number
  /** Keeps a copy. Never throws: `finish` rejects with what failed. */
  write(bytes: Uint8Array): void
  /**
   * The whole message, a file synced. Rejects with the system's error, or with `code` ENOSPC at the limit of all files.
   */
  finish(): Promise<TakenMessage['content']>
  /** Frees the memory, and deletes the file unless `finish` returned it. May be called again. */
  drop(): void
}

const ZSTD_LEVEL = 1
const SMALLEST_BLOCK_BYTES = 4 * KiB
const LARGEST_BLOCK_BYTES = 64 * KiB
/** Written to files between two looks at the free space. */
const DISK_CHECK_BYTES = MiB
/** As the content store names its parts: platform/content/pack.ts. */
const HASH_BYTES = 16

const sync = promisify(fdatasync)

export function createSpool(options: SpoolOptions): Spool {
  // As much again as the buffers when every session has a file.
  const blockBytes = Math.min(
    LARGEST_BLOCK_BYTES,
    Math.max(SMALLEST_BLOCK_BYTES, Math.floor(options.bufferBytes / options.maxMessages)),
  )
  const shared: Shared = {
    bufferedBytes: 0,
    spooledBytes: 0,
    uncheckedBytes: DISK_CHECK_BYTES,
    files: 0,
    open: new Set(),
  }
  return { begin: (network) => new SpooledMessage(options, blockBytes, shared, network) }
}

interface Shared {
  bufferedBytes: number
  spooledBytes: number
  /** Written since the free space was looked at. */
  uncheckedBytes: number
  files: number
  /** Messages that are being written into files. */
  readonly open: Set<SpooledMessage>
}

class SpooledMessage implements Draft {
  sizeBytes = 0
  readonly #options: SpoolOptions
  readonly #blockBytes: number
  readonly #shared: Shared
  readonly #network: string
  /**
   * In memory: the message before `#block`. Blocks are added, never copied into larger ones, which would be garbage.
   */
  #full: Uint8Array[] = []
  /** The end of the message in memory, or what is not written to the file yet. */
  #block: Uint8Array = new Uint8Array(0)
  #filled = 0
  /** What this message takes of the memory for all. */
  #countedBytes = 0
  #file: { readonly fd: number; readonly path: string; readonly hash: Bun.CryptoHasher } | undefined
  #writtenBytes = 0
  #failure: unknown
  #isGivenOut = false
  #isSyncing = false
  #isDropped = false

  constructor(options: SpoolOptions, blockBytes: number, shared: Shared, network: string) {
    this.#network = network
    this.#options = options
    this.#blockBytes = blockBytes
    this.#shared = shared
  }

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

  async finish(): Promise<TakenMessage['content']> {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#isDropped) throw new Error('the message was dropped')
    const file = this.#file
    if (!file) {
      const bytes = concatenated([...this.#full, this.#block.subarray(0, this.#filled)])
      // What it takes stays counted until it is dropped: the main thread has it meanwhile.
      this.#forget()
      return { kind: 'bytes', bytes }
    }
    try {
      this.#flush()
      this.#shared.open.delete(this)
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
    this.#isGivenOut = true
    return {
      kind: 'file',
      path: file.path,
      hash: new Uint8Array(file.hash.digest()).subarray(0, HASH_BYTES),
    }
  }

  drop(): void {
    this.#isDropped = true
    this.#count(0)
    this.#forget()
    // The number of a file that is being synced must not be given to another one.
    if (!this.#isSyncing) this.#close()
    if (this.#isGivenOut) this.#uncountFile()
  }

  #forget(): void {
    this.#full = []
    this.#block = new Uint8Array(0)
    this.#filled = 0
  }

  #count(bytes: number): void {
    this.#shared.bufferedBytes += bytes - this.#countedBytes
    this.#countedBytes = bytes
  }

  /** From memory into a file. */
  #open(): void {
    const path = join(this.#options.folder, `${this.#options.filePrefix}-${++this.#shared.files}.zst`)
    this.#file = { fd: openSync(path, 'wx', 0o600), path, hash: new Bun.CryptoHasher('sha256') }
    this.#shared.open.add(this)
    const soFar = [...this.#full, this.#block.subarray(0, this.#filled)]
    this.#full = []
    this.#block = new Uint8Array(this.#blockBytes)
    this.#filled = 0
    for (const part of soFar) this.#append(part)
    this.#count(0)
  }

  #append(bytes: Uint8Array): void {
    let from = 0
    while (from < bytes.length) {
      // Whole blocks need no copy.
      if (this.#file && this.#filled === 0 && bytes.length - from >= this.#blockBytes) {
        this.#writeBlock(bytes.subarray(from, from + this.#blockBytes))
        from += this.#blockBytes
        continue
      }
      if (this.#filled === this.#block.length) this.#makeRoom()
      const part = bytes.subarray(from, from + this.#block.length - this.#filled)
      this.#block.set(part, this.#filled)
      this.#filled += part.length
      from += part.length
    }
  }

  /** For the next octets: in memory while there is any, then in a file. */
  #makeRoom(): void {
    if (this.#file) {
      this.#flush()
      return
    }
    // As much again, so that a large message is of few blocks.
    const size = Math.min(LARGEST_BLOCK_BYTES, Math.max(SMALLEST_BLOCK_BYTES, this.#countedBytes))
    if (this.#shared.bufferedBytes + size > this.#options.bufferBytes) {
      this.#open()
      return
    }
    this.#count(this.#countedBytes + size)
    this.#full.push(this.#block)
    this.#block = new Uint8Array(size)
    this.#filled = 0
  }

  #flush(): void {
    if (this.#filled > 0) this.#writeBlock(this.#block.subarray(0, this.#filled))
    this.#filled = 0
  }

  #writeBlock(block: Uint8Array): void {
    const file = this.#file
    if (!file) throw new Error('a block without a file')
    file.hash.update(block)
    const packed = Bun.zstdCompressSync(block, { level: ZSTD_LEVEL })
    if (!this.#makeRoomInFiles(packed.length)) throw noRoom()
    this.#requireDiskSpace(packed.length)
    this.#shared.spooledBytes += packed.length
    this.#writtenBytes += packed.length
    for (let written = 0; written < packed.length; ) written += writeSync(file.fd, packed, written)
  }

  /** A message that began while there was room must not take what is reserved to finish accepted mail. */
  #requireDiskSpace(bytes: number): void {
    const { folder, minFreeBytes } = this.#options
    if (minFreeBytes === 0) return
    this.#shared.uncheckedBytes += bytes
    if (this.#shared.uncheckedBytes < DISK_CHECK_BYTES) return
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < minFreeBytes)
      throw Object.assign(new Error('less of the disk is free than is reserved'), { code: 'ENOSPC' })
    this.#shared.uncheckedBytes = 0
  }

  /**
   * Makes room in the files, if need be by failing a message of the network with most; false: this network has most.
   */
  #makeRoomInFiles(bytes: number): boolean {
    const { open } = this.#shared
    while (this.#shared.spooledBytes + bytes > this.#options.spoolBytes) {
      const perNetwork = new Map<string, number>()
      for (const message of open)
        perNetwork.set(message.#network, (perNetwork.get(message.#network) ?? 0) + message.#writtenBytes)
      const heldBy = ({ network }: { readonly network: string }): number => perNetwork.get(network) ?? 0
      const own = heldBy({ network: this.#network }) + bytes
      const [victim] = [...open]
        .map((message) => ({ message, network: message.#network, writtenBytes: message.#writtenBytes }))
        .filter((candidate) => heldBy(candidate) > own)
        .sort((a, b) => heldBy(b) - heldBy(a) || b.writtenBytes - a.writtenBytes)
      if (!victim) return false
      victim.message.#fail(noRoom())
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
    this.#shared.open.delete(this)
    if (!file) return
    closeSync(file.fd)
    unlinkSync(file.path)
    this.#uncountFile()
  }

  #uncountFile(): void {
    this.#shared.spooledBytes -= this.#writtenBytes
    this.#writtenBytes = 0
  }
}

const noRoom = (): Error =>
  Object.assign(new Error('the messages that arrive take all the room they may have'), { code: 'ENOSPC' })

function concatenated(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
