/** @module Copies and hashes the files of backups. Everything written is on disk when a function resolves. */
import { Database } from 'bun:sqlite'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { Readable } from 'node:stream'
import { syncFolder } from '#platform/content/synced-files.ts'
import { attempt, systemCodeOf } from '#platform/errors.ts'
import { MiB } from '#platform/units.ts'
import { BackupError } from './errors.ts'

const CHUNK_BYTES = MiB

/**
 * Creates a folder for backups with mode 0700, unless it exists. Never creates the folders above it: they are missing when
 * a disk is not mounted, and the backup would then be on the wrong disk.
 * @throws BackupError if the folder above is missing, or a disk is not mounted
 */
export async function createFolder(folder: string, fstab?: string): Promise<void> {
  const unmounted = findUnmounted(folder, fstab)
  if (unmounted !== undefined)
    throw new BackupError(
      `The disk of ${unmounted} is not mounted, so nothing was written. Mount it (\`mount ${unmounted}\`), or use another folder.`,
    )
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    if (systemCodeOf(error) === 'EEXIST') return
    if (systemCodeOf(error) !== 'ENOENT') throw error
    throw new BackupError(
      `The folder ${dirname(folder)} does not exist, so nothing was written. Mount its disk, or create the folder with \`mkdir -p ${folder}\`.`,
    )
  }
}

export interface FileDigest {
  readonly size: number
  /** SHA-256 in hex. */
  readonly sha256: string
}

/** Reads a file in chunks; opens it when the first one is read. */
export async function* readChunks(path: string): AsyncGenerator<Uint8Array> {
  await using file = await open(path, 'r')
  for (;;) {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, null)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
  }
}

/** Reads everything and returns its size and hash. */
export async function digest(
  chunks: AsyncIterable<Uint8Array>,
  onChunk: (chunk: Uint8Array) => unknown = () => undefined,
): Promise<FileDigest> {
  const hasher = new Bun.CryptoHasher('sha256')
  let size = 0
  for await (const chunk of chunks) {
    hasher.update(chunk)
    size += chunk.length
    await onChunk(chunk)
  }
  return { size, sha256: hasher.digest('hex') }
}

/**
 * Writes a new file with mode 0600, creating its folders with mode 0700; resolves with what was written, once it is on
 * disk. The file must not exist.
 */
export async function writeChunks(path: string, chunks: AsyncIterable<Uint8Array>): Promise<FileDigest> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await using file = await open(path, 'wx', 0o600)
  const written = await digest(chunks, async (chunk) => {
    for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten
  })
  await file.datasync()
  return written
}

export const writeText = (path: string, text: string): Promise<FileDigest> =>
  writeChunks(path, Readable.from([Buffer.from(text)]))

/**
 * Copies a database as it is at one moment, while other processes and threads write to it; the copy needs no
 * write-ahead log. SQLite copies page by page in one read transaction, which takes a fraction of the time of a VACUUM,
 * so that the write-ahead log is kept from being emptied for a shorter time. Blocks the thread meanwhile: for Workers
 * and commands. Never opens the file itself: closing it would release the locks that this process has on the database.
 * @param change writes to the copy, in its own transaction
 */
export async function copyDatabase(
  from: string,
  to: string,
  change: (copy: Database) => void = () => undefined,
): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  // Created first, so that the copy never has wider permissions.
  await (await open(to, 'wx', 0o600)).close()
  const source = new DatabaseSync(from, { readOnly: true, timeout: 5000 })
  try {
    await backup(source, to, { rate: -1 })
  } finally {
    source.close()
  }
  {
    using copy = new Database(to, { readwrite: true, strict: true })
    // Without a write-ahead log, the copy is one file, also for readers.
    copy.run('PRAGMA journal_mode = DELETE')
    change(copy)
  }
  await syncFolder(dirname(to))
}

/** Returns the problems of a database file that SQLite's quick check finds; empty when it is sound. */
export function checkDatabase(path: string): string[] {
  try {
    using db = new Database(path, { readonly: true, strict: true })
    return db
      .query<{ quick_check: string }, []>('PRAGMA quick_check(3)')
      .all()
      .map(({ quick_check: found }) => found)
      .filter((found) => found !== 'ok')
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
}

/** A file that changed less than this before it was looked at may change again without a new time. */
const SETTLED_MS = 2000

/**
 * Describes the state of a database from the sizes and times of its file and its write-ahead log. The same description
 * later means that nothing was written. Undefined when the files changed so recently that their times prove nothing.
 * @param now current time in ms
 */
export function describeState(path: string, now: number): string | undefined {
  const parts = [path, `${path}-wal`].map((file) => {
    const stat = statSync(file, { bigint: true, throwIfNoEntry: false })
    if (stat === undefined) return '-'
    return Number(stat.mtimeMs) > now - SETTLED_MS ? undefined : `${stat.ino}/${stat.size}/${stat.mtimeNs}`
  })
  return parts.includes(undefined) ? undefined : parts.join(' ')
}

/** A bind mount may be on the disk of the folder above it. */
const BIND = /\br?bind\b/

/**
 * The mount point at or above an absolute path whose disk is missing, so that the wrong disk would be filled; undefined if
 * there is none. Only /etc/fstab says that a folder is meant to be a mount point.
 */
export function findUnmounted(folder: string, fstab = '/etc/fstab'): string | undefined {
  // Of a link, the target; a path that does not exist yet has none.
  const path = attempt(() => realpathSync(folder)) ?? folder
  if (path === '/') return undefined
  // Not by the list of mounts: the sandbox of a service mounts each folder to which the service may write.
  const isMissing = isInFstab(path, fstab) && readDevice(path) === readDevice(dirname(path))
  return isMissing ? path : findUnmounted(dirname(path), fstab)
}

const readDevice = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.dev

function isInFstab(path: string, fstab: string): boolean {
  if (!existsSync(fstab)) return false
  const entries = readFileSync(fstab, 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/[ \t]+/))
  return entries.some(
    ([device = '#', point = '', , options = '']) =>
      !device.startsWith('#') && !BIND.test(options) && point.startsWith('/') && resolve(unescapeOctal(point)) === path,
  )
}

const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
