/**
 * @module Makes deleted data unreadable in a database file. `secure_delete` overwrites freed cells and pages, but
 * SQLite leaves copies of cells in the unused middle of rebuilt pages, pages freed by earlier versions keep their
 * content, and the WAL contains copies of changed pages. So the scrub releases free pages, empties the WAL into the
 * file, and zeroes the unused middle of every page. SQLite's own scrub does the same to a copy of a database; this
 * one changes the file itself, in steps of some milliseconds. Never touches a byte that SQLite reads.
 */
import type { Database } from 'bun:sqlite'
import { fdatasync, fstatSync, read, readSync, writeSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Committer } from './commit.ts'

const PAGES_PER_RELEASE = 64
const PAGES_PER_STEP = 256
const PAGES_PER_READ = 256
/**
 * Files of this many pages or more are not scrubbed: an overflow page begins with a page number, whose first byte could
 * then be 2 or more and look like the type of a b-tree page.
 */
const MAX_PAGES = 2 ** 25

/**
 * Scrubs a committer's database. Resolves with false when another process reads it for so long that the WAL cannot be
 * emptied: deleted data may then remain, and the caller tries again later.
 */
export async function scrubDatabase(committer: Committer): Promise<boolean> {
  await releasePages(committer)
  // Checkpoints in another thread first, so that little is left to copy while all writes wait.
  await committer.checkpoint()
  if (!(await committer.runExclusiveWithFile(({ isWhole }) => isWhole))) return false
  for await (const pages of findDirtyPages(committer.fileFd)) {
    for (let from = 0; from < pages.length; from += PAGES_PER_STEP) {
      const step = pages.slice(from, from + PAGES_PER_STEP)
      // A kill must not leave zeroes here alone. What is zeroed twice, or too early, does no harm.
      await committer.replica?.scrub(step)
      const isDone = await committer.runExclusiveWithFile(({ fd, isWhole }) => {
        // Something was written since then: the file may hold stale pages whose newer form is in the WAL.
        if (!isWhole) return false
        // SQLite's page cache still holds the old middle of each page, and the next change would write it back.
        committer.db.run('PRAGMA shrink_memory')
        zeroPages(fd, step)
        // Commits in between may have brought something back.
        void committer.replica?.scrub(step)
        return true
      })
      if (!isDone) return false
    }
  }
  await sync(committer.fileFd)
  return true
}

/**
 * Releases free pages to the file system, in steps; the file shrinks at the next checkpoint. Resolves with the number
 * of released pages.
 * @param maxPages stops after about this many pages
 */
export async function releasePages(committer: Committer, maxPages = Number.POSITIVE_INFINITY): Promise<number> {
  let released = 0
  while (released < maxPages) {
    const before = await committer.runExclusive((db) => {
      const free = countFreePages(db)
      if (free > 0) db.query(`PRAGMA incremental_vacuum(${PAGES_PER_RELEASE})`).all()
      return { free, left: free > 0 ? countFreePages(db) : 0 }
    })
    released += before.free - before.left
    // No progress means that the database was created without auto_vacuum: its free pages stay in the file, but their
    // content is overwritten.
    if (before.left === 0 || before.left >= before.free) break
  }
  return released
}

const countFreePages = (db: Database): number =>
  db.query<{ freelist_count: number }, []>('PRAGMA freelist_count').get()?.freelist_count ?? 0

/**
 * Yields the numbers of pages whose unused middle is not all zero, batch by batch. Zeroing checks each page again,
 * because the page may have changed since then.
 */
async function* findDirtyPages(fd: number): AsyncGenerator<number[]> {
  const header = Buffer.alloc(FILE_HEADER_BYTES)
  await readAt(fd, header, 0)
  const pageSize = pageSizeOf(header)
  if (pageSize === 0 || fstatSync(fd).size / pageSize >= MAX_PAGES) return
  const buffer = Buffer.alloc(pageSize * PAGES_PER_READ)
  for (let first = 1; ; first += PAGES_PER_READ) {
    const bytesRead = await readAt(fd, buffer, (first - 1) * pageSize)
    const found: number[] = []
    for (let index = 0; (index + 1) * pageSize <= bytesRead; index++) {
      const page = first + index
      const bytes = buffer.subarray(index * pageSize, (index + 1) * pageSize)
      if (!isPointerMap(page, pageSize) && findUnusedRange(bytes, page) !== undefined) found.push(page)
    }
    if (found.length > 0) yield found
    if (bytesRead < buffer.length) return
  }
}

/** Fills the buffer from an offset in the file; resolves with the number of bytes read. */
async function readAt(fd: number, buffer: Buffer, start: number): Promise<number> {
  for (let filled = 0; ; ) {
    const { bytesRead } = await readInto(fd, buffer, filled, buffer.length - filled, start + filled)
    filled += bytesRead
    if (bytesRead === 0 || filled === buffer.length) return filled
  }
}

const readInto = promisify(read)
const sync = promisify(fdatasync)

/** Reads the page size from the file header; 0 for a file with reserved bytes in its pages, which ours never have. */
function pageSizeOf(header: Uint8Array): number {
  const view = new DataView(header.buffer, header.byteOffset, header.length)
  const size = view.getUint16(16)
  return view.getUint8(20) === 0 ? (size === 1 ? 65_536 : size) : 0
}

/**
 * With auto_vacuum some pages (pointer maps) hold the parents of other pages. The first one is page 2; each has entries
 * of 5 bytes for the pages that follow it, and the next pointer map follows those pages.
 */
const isPointerMap = (page: number, pageSize: number): boolean =>
  page > 1 && (page - 2) % (Math.floor(pageSize / 5) + 1) === 0

const LEAVES: ReadonlySet<number> = new Set([10, 13])
const INTERIORS: ReadonlySet<number> = new Set([2, 5])
/** The file header precedes the first page's own header. */
const FILE_HEADER_BYTES = 100

/**
 * Returns the unused middle of a b-tree page, between the cell pointers and the first cell, unless it is all zero.
 * Undefined also for a page that is not a b-tree page or does not follow the file format exactly
 * (https://sqlite.org/fileformat2.html, 1.6).
 */
function findUnusedRange(bytes: Uint8Array, page: number): { readonly from: number; readonly to: number } | undefined {
  const header = page === 1 ? FILE_HEADER_BYTES : 0
  const type = bytes[header] ?? 0
  if (!LEAVES.has(type) && !INTERIORS.has(type)) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const cells = view.getUint16(header + 3)
  const to = view.getUint16(header + 5) || 65_536
  const pointers = header + (LEAVES.has(type) ? 8 : 12)
  const from = pointers + 2 * cells
  if (from > to || to > bytes.length) return undefined
  const freeBlock = view.getUint16(header + 1)
  if (freeBlock !== 0 && freeBlock < to) return undefined
  for (let at = pointers; at < from; at += 2) if (view.getUint16(at) < to) return undefined
  return isZero(bytes.subarray(from, to)) ? undefined : { from, to }
}

const ZEROS = Buffer.alloc(65_536)
const isZero = (bytes: Uint8Array): boolean => ZEROS.compare(bytes, 0, bytes.length, 0, bytes.length) === 0

/** Zeroes the unused middle of pages in the file. Call this only while nothing writes and the WAL is empty. */
export function zeroPages(fd: number, pages: readonly number[]): void {
  const header = Buffer.alloc(FILE_HEADER_BYTES)
  readSync(fd, header, 0, header.length, 0)
  const pageSize = pageSizeOf(header)
  if (pageSize === 0) return
  const bytes = Buffer.alloc(pageSize)
  for (const page of pages) {
    const start = (page - 1) * pageSize
    // If the file has shrunk, the page is gone.
    if (readSync(fd, bytes, 0, pageSize, start) !== pageSize) return
    const unused = findUnusedRange(bytes, page)
    if (unused) writeSync(fd, ZEROS, 0, unused.to - unused.from, start + unused.from)
  }
}
