/**
 * @module Backups in one file: `.tar`, or compressed `.tar.zst`, in the ustar format (POSIX pax, "ustar Interchange
 * Format"), which `tar` unpacks into a directory backup. The manifest comes first.
 */
import { createWriteStream, existsSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { syncFolder } from '#platform/content/synced-files.ts'
import { BackupError } from './errors.ts'
import { readChunks } from './files.ts'
import { type BackupEntry, type BackupReader, MANIFEST_FILE, type Manifest, parseManifest } from './manifest.ts'

const BLOCK_BYTES = 512
/** Larger sizes do not fit the 11 octal digits of a header. */
const MAX_OCTAL_SIZE = 8 ** 11

export const isArchiveName = (path: string): boolean => /\.tar(\.zst)?$/.test(path)

/** Packs a directory backup into a new file, which appears under its name when it is complete. */
export async function packBackup(folder: string, file: string): Promise<void> {
  if (existsSync(file)) throw new BackupError(`${file} exists; use another name.`)
  const manifest = await Bun.file(join(folder, MANIFEST_FILE)).text()
  const partial = `${file}.partial`
  try {
    const steps = [
      Readable.from(pack(folder, manifest)),
      ...(file.endsWith('.zst') ? [createZstdCompress()] : []),
      createWriteStream(partial, { mode: 0o600 }),
    ] as const
    await pipeline(steps as never)
    const written = await open(partial, 'r')
    await written.sync().finally(() => written.close())
    await rename(partial, file)
    await syncFolder(dirname(file))
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}

async function* pack(folder: string, manifest: string): AsyncGenerator<Uint8Array> {
  const { files, finished_at: at } = parseManifest(manifest, basename(folder))
  const text = Buffer.from(manifest)
  const mtime = Math.floor(Date.parse(at) / 1000)
  yield formatHeader(MANIFEST_FILE, text.length, mtime)
  yield text
  yield pad(text.length)
  for (const { path, size } of files) {
    yield formatHeader(path, size, mtime)
    yield* readChunks(join(folder, path))
    yield pad(size)
  }
  yield Buffer.alloc(2 * BLOCK_BYTES)
}

const pad = (size: number): Uint8Array => Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES)

function formatHeader(path: string, size: number, mtime: number): Uint8Array {
  const header = Buffer.alloc(BLOCK_BYTES)
  if (Buffer.byteLength(path) > 100) throw new Error(`${path} is too long for a tar file`)
  header.write(path, 0)
  header.write('0000600\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  if (size < MAX_OCTAL_SIZE) header.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  else {
    // GNU's form of large sizes: base 256, marked by the first bit.
    header[124] = 0x80
    header.writeBigUInt64BE(BigInt(size), 128)
  }
  header.write(`${mtime.toString(8).padStart(11, '0')}\0`, 136)
  header.write('0', 156)
  header.write('ustar\0' + '00', 257)
  header.write(`${sumHeader(header).toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

/** Sum of the bytes of a header, with its checksum as spaces. */
const sumHeader = (header: Uint8Array): number =>
  header.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0)

/** Opens an archive. Throws BackupError when it is no backup, or is damaged before its first file. */
export async function openArchive(file: string): Promise<BackupReader> {
  const name = basename(file)
  const manifest = await readFirst(file, name)
  if (!manifest)
    throw new BackupError(
      `${file} is not a backup, or its beginning is damaged; name a folder, a .tar or a .tar.zst file that \`tassis backup\` wrote.`,
    )
  return { name, manifest, entries: () => unpack(file) }
}

/** The manifest, if that is the first file of the archive. */
async function readFirst(file: string, name: string): Promise<Manifest | undefined> {
  let text: string | undefined
  try {
    for await (const { path, chunks } of unpack(file)) {
      if (path === MANIFEST_FILE) text = Buffer.concat(await Array.fromAsync(chunks)).toString()
      break
    }
  } catch (error) {
    if (!(error instanceof BackupError)) throw error
  }
  return text === undefined ? undefined : parseManifest(text, name)
}

/** Reads an exact number of bytes at a time from a stream of chunks. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** The next bytes, at most `max`; empty at the end. */
  async some(max: number): Promise<Uint8Array> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#source.next()
      if (done) return this.#rest
      this.#rest = value
    }
    const taken = this.#rest.subarray(0, max)
    this.#rest = this.#rest.subarray(taken.length)
    return taken
  }

  async exactly(count: number): Promise<Uint8Array | undefined> {
    const parts: Uint8Array[] = []
    for (let missing = count; missing > 0; ) {
      const part = await this.some(missing)
      if (part.length === 0) return undefined
      parts.push(part)
      missing -= part.length
    }
    return Buffer.concat(parts)
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }
}

async function* unpack(file: string): AsyncGenerator<BackupEntry> {
  const raw = readChunks(file)
  let last = 'the beginning'
  const reader = new ByteReader(file.endsWith('.zst') ? decompress(raw) : raw)
  try {
    for (;;) {
      const header = await reader.exactly(BLOCK_BYTES)
      if (!header) throw new BackupError(`the archive is cut short after ${last}`)
      if (header.every((byte) => byte === 0)) return
      const { path, size } = parseHeader(header, last)
      let left = size
      const chunks = async function* (): AsyncGenerator<Uint8Array> {
        while (left > 0) {
          const chunk = await reader.some(left)
          if (chunk.length === 0) throw new BackupError(`the archive is cut short in ${path}`)
          left -= chunk.length
          yield chunk
        }
      }
      yield { path, chunks: chunks() }
      for await (const _ of chunks());
      await reader.exactly(pad(size).length)
      last = path
    }
  } catch (error) {
    if (error instanceof BackupError || !(error instanceof Error) || !/zstd|frame|block|corrupt/i.test(error.message))
      throw error
    throw new BackupError(`the archive is damaged after ${last}: it cannot be decompressed`)
  } finally {
    await reader.close()
  }
}

async function* decompress(chunks: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const source = Readable.from(chunks)
  const stream = source.pipe(createZstdDecompress())
  source.on('error', (error) => stream.destroy(error))
  try {
    yield* stream as AsyncIterable<Uint8Array>
  } finally {
    // A reader that stops early must close the file: pipes do not.
    source.destroy()
    stream.destroy()
    await chunks.return(undefined)
  }
}

function parseHeader(header: Uint8Array, last: string): { path: string; size: number } {
  const view = Buffer.from(header)
  const text = (from: number, to: number): string => view.toString('latin1', from, to).replace(/\0[\s\S]*$/, '')
  if (Number.parseInt(text(148, 156), 8) !== sumHeader(header) || text(257, 262) !== 'ustar')
    throw new BackupError(`the archive is damaged after ${last}`)
  const size = view[124] === 0x80 ? Number(view.readBigUInt64BE(128)) : Number.parseInt(text(124, 136), 8)
  return { path: text(0, 100), size }
}
