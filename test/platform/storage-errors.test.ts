import { expect, test } from 'bun:test'
import { isStorageFailure, isTransientError, toPublicReason, toStorageError } from '#platform/disk/storage-errors.ts'
import { AppError, insufficientStorage, tooManyRequests } from '#platform/errors.ts'
import { toAppError, unknownRoute } from '#platform/http/error-response.ts'

const errorOf = (code: string): Error =>
  Object.assign(new Error(`${code}: something, open '/var/lib/tassis/content/2026-11'`), { code })

/** Status, code and Retry-After of the client's error. */
const answerTo = (error: unknown): unknown[] => {
  const { status, code, retryAfterSeconds } = toAppError(error, unknownRoute).error
  return [status, code, retryAfterSeconds]
}

// Proves: storage-1
test.each([
  'EMFILE',
  'ENFILE',
  'EIO',
  'SQLITE_BUSY',
  'SQLITE_BUSY_RECOVERY',
  'SQLITE_LOCKED',
  'SQLITE_IOERR_READ',
  'SQLITE_CANTOPEN',
])('%s is transient: a 503 with Retry-After', (code) => {
  expect(isTransientError(errorOf(code))).toBe(true)
  expect(isTransientError(toStorageError(errorOf(code)))).toBe(true)
  expect(answerTo(errorOf(code))).toEqual([503, 'storage_unavailable', 5])
})

test.each(['ENOSPC', 'EDQUOT', 'SQLITE_FULL', 'SQLITE_IOERR_SHMSIZE'])('%s is transient: a 507', (code) => {
  expect(isTransientError(errorOf(code))).toBe(true)
  expect(answerTo(errorOf(code))).toEqual([507, 'insufficient_storage', undefined])
})

test.each(['EACCES', 'EROFS', 'SQLITE_READONLY'])(
  '%s is transient, since the operator can fix it, and an internal error to clients',
  (code) => {
    expect(isTransientError(errorOf(code))).toBe(true)
    expect(answerTo(errorOf(code))).toEqual([500, 'internal_error', undefined])
  },
)

test('corruption and bugs are not transient', () => {
  for (const error of [
    errorOf('SQLITE_CORRUPT'),
    errorOf('ENOENT'),
    new TypeError('bug'),
    tooManyRequests('any', 'Wait.', 1),
  ])
    expect(isTransientError(error)).toBe(false)
  expect(isStorageFailure(errorOf('SQLITE_CORRUPT'))).toBe(true)
  expect(isStorageFailure(errorOf('ENOENT'))).toBe(false)
})

// Proves: http-23
test('the reason that a tenant reads contains no path', () => {
  expect(toPublicReason(errorOf('EACCES'))).toBe('The service had an internal error (EACCES)')
  expect(toPublicReason(new Error('the email is missing'))).toBe('the email is missing')
  expect(toPublicReason(insufficientStorage())).toBe(
    new AppError(507, 'insufficient_storage', insufficientStorage().message).message,
  )
})
