/**
 * @module The exclusive lock of a data directory: one process owns it. Uses SQLite's own file lock, held by an open
 * transaction, so the system releases it however the process ends.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { systemCodeOf } from '#platform/errors.ts'

export type DirectoryLock = NonNullable<ReturnType<typeof lockDirectory>>

/** Acquires the lock; undefined when another process holds it. */
export function lockDirectory(folder: string) {
  const db = new Database(join(folder, 'lock'), { create: true, readwrite: true })
  try {
    db.run('PRAGMA busy_timeout = 0')
    db.run('PRAGMA journal_mode = MEMORY')
    db.run('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (systemCodeOf(error).startsWith('SQLITE_BUSY')) return undefined
    throw error
  }
  return {
    release(): void {
      db.run('ROLLBACK')
      db.close()
    },
  }
}
