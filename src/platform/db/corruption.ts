/** @module What SQLite says of a file that is no database, or whose pages are damaged. */

/** Whether an error means that the file itself is damaged, not that the disk or the system is in trouble. */
export const isDatabaseCorrupt = (error: unknown): boolean => CORRUPTION.test(codeOf(error))

/** Of two damaged ones: whether nothing of it is a database. */
export const isNotADatabase = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_NOTADB')

const CORRUPTION = /^SQLITE_(?:CORRUPT|NOTADB)/

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')
