/**
 * @module What a crash of the leader left: commits that are in its write-ahead logs, but in no log of the cluster. They
 * were never confirmed to anybody and are cut off; the rest goes into the database files. No such commit is in a database
 * file, because checkpoints copy only what the log has.
 */
import { Database } from 'bun:sqlite'
import { existsSync, rmSync, statSync, truncateSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { listMonthDatabases, STORES } from '#platform/content/files.ts'
import { ConfigError } from '#platform/settings/config.ts'
import type { WalPosition } from './entries.ts'

const HEADER_BYTES = 32

/** The databases of a data directory that the log has, by path in it. */
export const listDatabases = (dataDir: string): string[] => [
  'tassis.db',
  ...STORES.flatMap((store) => listMonthDatabases(dataDir, store)),
]

/**
 * Cuts the write-ahead logs at the given places and empties them into their databases. One that has begun anew since
 * holds nothing that the log has.
 */
export async function cutWals(dataDir: string, ends: ReadonlyMap<string, WalPosition>): Promise<void> {
  for (const file of listDatabases(dataDir)) {
    const path = join(dataDir, file)
    const wal = `${path}-wal`
    if (!existsSync(wal)) continue
    const { salt, sizeBytes } = await readWal(wal)
    const end = ends.get(file)
    const isSame = end?.salt === salt
    if (isSame && sizeBytes > end.end) truncateSync(wal, end.end)
    if (!isSame) rmSync(wal)
    rmSync(`${path}-shm`, { force: true })
  }
  emptyWals(dataDir)
}

/**
 * Empties the write-ahead logs of all databases into them. Throws ConfigError when another process keeps one: what is
 * written into the file under it would be hidden by it.
 */
export function emptyWals(dataDir: string): void {
  for (const file of listDatabases(dataDir)) {
    const path = join(dataDir, file)
    if (!existsSync(`${path}-wal`)) continue
    const db = new Database(path, { readwrite: true, strict: true })
    db.query('PRAGMA wal_checkpoint(TRUNCATE)').all()
    // The last connection removes the log.
    db.close()
  }
  if (hasWals(dataDir))
    throw new ConfigError(`Another process reads the databases in ${dataDir}; end it, and start this node again.`)
}

/** Whether a database has a write-ahead log that is not empty. */
export const hasWals = (dataDir: string): boolean =>
  listDatabases(dataDir).some(
    (file) => (statSync(join(dataDir, `${file}-wal`), { throwIfNoEntry: false })?.size ?? 0) > 0,
  )

async function readWal(path: string): Promise<{ salt: string; sizeBytes: number }> {
  await using file = await open(path, 'r')
  const header = Buffer.alloc(HEADER_BYTES)
  await file.read(header, 0, HEADER_BYTES, 0)
  return { salt: header.toString('hex', 16, 24), sizeBytes: (await file.stat()).size }
}
