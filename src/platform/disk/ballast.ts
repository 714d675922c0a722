/**
 * @module The ballast: a file in the data directory whose space a start on a full disk takes, so that SQLite can open
 * and read.
 */
import { rmSync, statfsSync, statSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { randomBytes } from '../ids.ts'
import { MiB } from '../units.ts'
import type { DiskGuard } from './disk.ts'

const BALLAST_BYTES = 4 * MiB

const ballastPath = (dataDir: string): string => join(dataDir, 'ballast')

/** Deletes the ballast when the disk is full; returns false when the disk is not full or there is no ballast. */
export function deleteBallast(dataDir: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dataDir)
    if (bavail * bsize >= BALLAST_BYTES || !statSync(ballastPath(dataDir), { throwIfNoEntry: false })) return false
    rmSync(ballastPath(dataDir))
    return true
  } catch {
    return false
  }
}

/** Writes the ballast again when the disk has space for it: random bytes, so that no file system compresses them. */
export async function ensureBallast(dataDir: string, disk: DiskGuard): Promise<void> {
  const path = ballastPath(dataDir)
  if (statSync(path, { throwIfNoEntry: false })?.size === BALLAST_BYTES) return
  if ((await disk.isLow()) || !disk.hasSpaceFor(2 * BALLAST_BYTES)) return
  const file = await open(path, 'w', 0o600)
  try {
    await file.writeFile(randomBytes(BALLAST_BYTES))
    await file.sync()
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}
