/**
 * @module What a crash of the leader left: commits that are in its write-ahead logs, but in no log of the cluster. They
 * were never confirmed to anybody and are cut off; the rest goes into the database files. No such commit is in a database
 * file, because checkpoints copy only what the log has.
 */
import { Database } from 'bun:sqlite'
import { existsSync, statSync, truncateSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { listMonthDatabases, STORES } from '#platform/content/files.ts'
import type { WalPosition } from './entries.ts'

const HEADER_BYTES = 32

/** The databases of a data directory that the log has, by path in it. */
export const listDatabases = (dataDir: string): string[] => [
  'tassis.db',
  ...STORES.flatMap((store) => listMonthDatabases(dataDir, store)),
]

/**
 * Cuts the write-ahead logs at the given places and empties them into their databases. One that has begun anew since
 * holds nothing that the log has. Throws SQLITE_BUSY as `emptyWals` does; then it is done again.
 */
export async function cutWals(dataDir: string, ends: ReadonlyMap<string, WalPosition>): Promise<void> {
  for (const file of listDatabases(dataDir)) {
    const wal = join(dataDir, `${file}-wal`)
    if (!existsSync(wal)) continue
    const { salt, sizeBytes } = await readWal(wal)
    const end = ends.get(file)
    // With its header it is not empty, and whoever else keeps it is found.
    const keptBytes = end?.salt === salt ? end.end : HEADER_BYTES
    if (sizeBytes > keptBytes) truncateSync(wal, keptBytes)
  }
  emptyWals(dataDir)
}

/**
 * Empties the write-ahead logs of all databases into them. Throws SQLITE_BUSY while another process has one open: its
 * index of the log in shared memory is older than a cut, and it would read, and at its end write, pages by it.
 */
export function emptyWals(dataDir: string): void {
  for (const file of listDatabases(dataDir).filter((file) => hasWal(dataDir, file))) {
    const db = new Database(join(dataDir, file), { readwrite: true, strict: true })
    try {
      // Refused beside another connection, and reads the log itself instead of an index that a crash left.
      db.run('PRAGMA locking_mode = EXCLUSIVE')
      db.run('PRAGMA wal_checkpoint(TRUNCATE)')
    } finally {
      // The last connection removes the log.
      db.close()
    }
  }
}

/** Whether a database has a write-ahead log that is not empty. */
export const hasWals = (dataDir: string): boolean => listDatabases(dataDir).some((file) => hasWal(dataDir, file))

const hasWal = (dataDir: string, file: string): boolean =>
  (statSync(join(dataDir, `${file}-wal`), { throwIfNoEntry: false })?.size ?? 0) > 0

async function readWal(path: string): Promise<{ salt: string; sizeBytes: number }> {
  await using file = await open(path, 'r')
  const header = Buffer.alloc(HEADER_BYTES)
  await file.read(header, 0, HEADER_BYTES, 0)
  return { salt: header.toString('hex', 16, 24), sizeBytes: (await file.stat()).size }
}
