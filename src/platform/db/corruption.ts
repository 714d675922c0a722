/** @module Recognises SQLite's errors for files that are corrupt or not a database. */
import { systemCodeOf } from '../errors.ts'

/**
 * Whether an error means that the file itself is corrupt, not that the disk or the system failed. A lost write-ahead log
 * leaves a database without the tables that were still in the log; while its writer runs, another reader finds it too
 * short.
 */
export const isDatabaseCorrupt = (error: unknown): boolean =>
  CORRUPTION.test(systemCodeOf(error)) || (error instanceof Error && error.message.startsWith('no such table: '))

/** Whether an error means that the file is not a database at all. */
export const isNotADatabase = (error: unknown): boolean => systemCodeOf(error).startsWith('SQLITE_NOTADB')

const CORRUPTION = /^SQLITE_(?:CORRUPT|NOTADB|IOERR_SHORT_READ)/
