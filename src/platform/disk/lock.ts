/**
 * @module Locks on files, by which processes know of each other. Uses SQLite's own file lock, held by an open
 * transaction, so the system releases it however the process ends.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { systemCodeOf } from '#platform/errors.ts'

/** Acquires the exclusive lock of a data directory, which one process owns; undefined when another holds it. */
export const lockDirectory = (folder: string) => acquire(join(folder, 'lock'), 0, 'BEGIN EXCLUSIVE')

/** Acquires a lock that others may share; waits a moment for `isLocked`. */
export const shareLock = (path: string) => acquire(path, 5000, 'BEGIN', 'SELECT 1 FROM sqlite_master')

/** Whether somebody holds a lock on this file. */
export function isLocked(path: string): boolean {
  const lock = acquire(path, 0, 'BEGIN EXCLUSIVE')
  lock?.release()
  return lock === undefined
}

function acquire(path: string, waitMs: number, ...begin: readonly string[]) {
  const db = new Database(path, { create: true, readwrite: true })
  try {
    db.run(`PRAGMA busy_timeout = ${waitMs}`)
    db.run('PRAGMA journal_mode = MEMORY')
    for (const statement of begin) db.run(statement)
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
