/** @module Files and the entries of folders that are on disk when the promise resolves. A new file needs both. */
import { open, rename, rm } from 'node:fs/promises'
import { randomBase62 } from '../ids.ts'

/** Writes a file so that it appears under its name only when it is whole; its entry in the folder is synced by `syncFolder`. */
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

/** The entries of a folder are on disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
