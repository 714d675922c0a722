/**
 * @module Classifies errors of disk, database and operating system by their codes: which errors are transient, and what
 * clients or tenants may see. Work that fails with a transient error is released, retried or refused with 503 or 507;
 * such work never gets a final state.
 */
import { AppError, insufficientStorage, systemCodeOf } from '#platform/errors.ts'

const DISK_FULL = /^(?:SQLITE_FULL|SQLITE_IOERR_SHMSIZE|ENOSPC|EDQUOT)$/
/** Another process holds the lock, for a moment or until someone stops that process. */
const LOCKED = /^SQLITE_(?:BUSY|LOCKED|PROTOCOL)/
const UNAVAILABLE = /^(?:SQLITE_(?:IOERR|CANTOPEN|NOMEM).{0,100}|E(?:IO|MFILE|NFILE|NOMEM|NOBUFS|AGAIN|INTR))$/
/** These errors end once the operator restores the file permissions of the service's user. */
const FORBIDDEN = /^(?:SQLITE_(?:READONLY|PERM).{0,100}|E(?:ROFS|ACCES|PERM))$/
const CORRUPT = /^SQLITE_(?:CORRUPT|NOTADB)/

/** Codes of the AppErrors for storage failures. */
const STORAGE_ERROR_CODES: ReadonlySet<string> = new Set([
  'insufficient_storage',
  'storage_unavailable',
  'storage_failed',
])

const RETRY_AFTER_SECONDS = 5

export const isDiskFull = (error: unknown): boolean =>
  error instanceof AppError ? error.code === 'insufficient_storage' : DISK_FULL.test(systemCodeOf(error))

export const isLocked = (error: unknown): boolean => LOCKED.test(systemCodeOf(error))

/** Whether an error is transient: the same operation may succeed later. */
export function isTransientError(error: unknown): boolean {
  const code = systemCodeOf(error)
  if (error instanceof AppError) return STORAGE_ERROR_CODES.has(code)
  return [DISK_FULL, LOCKED, UNAVAILABLE, FORBIDDEN].some((codes) => codes.test(code))
}

/** Whether the disk or the database failed, so that every other write would fail now as well. */
export const isStorageFailure = (error: unknown): boolean =>
  isTransientError(error) || CORRUPT.test(systemCodeOf(error))

/**
 * Turns the error of a full disk into a 507, and that of a locked database or a failing disk into a 503. Other errors,
 * such as missing permissions, stay as they are.
 */
export function toStorageError(error: unknown): unknown {
  if (error instanceof AppError) return error
  if (isDiskFull(error)) return insufficientStorage(error)
  return isLocked(error) || UNAVAILABLE.test(systemCodeOf(error)) ? storageUnavailable(error) : error
}

const storageUnavailable = (cause: unknown): AppError =>
  new AppError(
    503,
    'storage_unavailable',
    'The storage is temporarily unavailable; nothing was changed. Try again in a few seconds.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS, cause },
  )

/**
 * The part of an error that its tenant may see. System errors contain paths of this machine, so only their code is
 * shown.
 */
export function toPublicReason(error: unknown): string {
  const code = systemCodeOf(error)
  if (code !== '' && !(error instanceof AppError)) return `The service had an internal error (${code})`
  return error instanceof Error ? error.message : String(error)
}
