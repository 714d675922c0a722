/**
 * @module Knows the errors of disk, database and operating system by their codes: which of them pass, and what a client
 * or a tenant is told of them. What fails by one that passes is released, tried again or refused with 503 or 507; it
 * never gets a final state.
 */
import { AppError, insufficientStorage } from './errors.ts'

const DISK_FULL = /^(?:SQLITE_FULL|SQLITE_IOERR_SHMSIZE|ENOSPC|EDQUOT)$/
/** Another process holds the lock, for a moment or until somebody ends it. */
const LOCKED = /^SQLITE_(?:BUSY|LOCKED|PROTOCOL)/
const UNAVAILABLE = /^(?:SQLITE_(?:IOERR|CANTOPEN|NOMEM).{0,100}|E(?:IO|MFILE|NFILE|NOMEM|NOBUFS|AGAIN|INTR))$/
/** Passes when the operator gives the files back to the user of the service. */
const FORBIDDEN = /^(?:SQLITE_(?:READONLY|PERM).{0,100}|E(?:ROFS|ACCES|PERM))$/
const CORRUPT = /^SQLITE_(?:CORRUPT|NOTADB)/

/** The code of each AppError that stands for trouble with storage. */
const STORAGE_ERROR_CODES: ReadonlySet<string> = new Set([
  'insufficient_storage',
  'storage_unavailable',
  'storage_failed',
])

const RETRY_AFTER_SECONDS = 5

export function systemCodeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return ''
  return typeof error.code === 'string' ? error.code : ''
}

export const isDiskFull = (error: unknown): boolean =>
  error instanceof AppError ? error.code === 'insufficient_storage' : DISK_FULL.test(systemCodeOf(error))

export const isLocked = (error: unknown): boolean => LOCKED.test(systemCodeOf(error))

/** Whether a failure says nothing of what failed: the same may work later. */
export function isTransientError(error: unknown): boolean {
  const code = systemCodeOf(error)
  if (error instanceof AppError) return STORAGE_ERROR_CODES.has(code)
  return [DISK_FULL, LOCKED, UNAVAILABLE, FORBIDDEN].some((codes) => codes.test(code))
}

/** Whether a failure is the disk's or the database's, so that whatever else is to be stored now fails as well. */
export const isStorageFailure = (error: unknown): boolean =>
  isTransientError(error) || CORRUPT.test(systemCodeOf(error))

/** Errors that pass by themselves as the client's 507, for a full disk, or 503. Other errors stay as they are. */
export function toStorageError(error: unknown): unknown {
  if (error instanceof AppError) return error
  if (isDiskFull(error)) return insufficientStorage(error)
  return isLocked(error) || UNAVAILABLE.test(systemCodeOf(error)) ? storageUnavailable(error) : error
}

const storageUnavailable = (cause: unknown): AppError =>
  new AppError(
    503,
    'storage_unavailable',
    'The server cannot reach its storage just now; nothing was changed. Try again in some seconds.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS, cause },
  )

/** What of an error its tenant may read. Errors of the system name paths of this machine: of them the code alone. */
export function toPublicReason(error: unknown): string {
  const code = systemCodeOf(error)
  if (code !== '' && !(error instanceof AppError)) return `The service had an error of its own (${code})`
  return error instanceof Error ? error.message : String(error)
}
