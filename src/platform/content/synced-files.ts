/**
 * @module Writes files and folder entries that are on disk when the promise resolves. A new file is safe only after
 * both.
 */
import { open, rename, rm } from 'node:fs/promises'
import { randomBase62 } from '../ids.ts'

/** Writes a file that appears under its name only when complete; `syncFolder` syncs its entry in the folder. */
export async function writeFileSynced(path: string, data: Uint8Array): Promise<void> {
  const temporary = `${path}.${randomBase62(12)}.tmp`
  try {
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(data)
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** Syncs the entries of a folder to disk. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}
