/**
 * @module AppError, the only error class for client mistakes and other errors that a client must see. Results from
 * remote systems (an SMTP reply, a DNS answer) are returned as values, even failures; bugs throw other errors. Only
 * `http/error-response.ts` turns an AppError into a response.
 */

export const ERROR_TYPE_NAMES = [
  'validation_error',
  'authentication_error',
  'permission_error',
  'not_found',
  'conflict',
  'rate_limit_exceeded',
  'invalid_request',
  'timeout',
  'server_error',
] as const
export type ErrorType = (typeof ERROR_TYPE_NAMES)[number]

export interface ErrorDetail {
  /** Dotted path of the field in the request body, query or path, such as `attachments.0.filename`. */
  readonly field: string
  readonly message: string
}

export interface AppErrorOptions {
  readonly details?: readonly ErrorDetail[]
  /** Seconds until the same request may succeed; sent in `Retry-After`. */
  readonly retryAfterSeconds?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Extra body fields for programs: they repeat the numbers of the message. */
  readonly facts?: Readonly<Record<string, number>>
  /** What to do, where the message is fixed. */
  readonly advice?: string
  readonly cause?: unknown
}

export class AppError extends Error {
  readonly status: number
  readonly code: string
  readonly type: ErrorType
  readonly details: readonly ErrorDetail[]
  readonly retryAfterSeconds: number | undefined
  /** Of the response, with `Retry-After`. */
  readonly headers: Readonly<Record<string, string>>
  readonly facts: Readonly<Record<string, number>>
  readonly advice: string | undefined

  /**
   * @param code stable snake_case name
   * @param message one sentence that tells a person how to fix the problem, without SQL, paths or stack traces
   */
  constructor(status: number, code: string, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'AppError'
    this.status = status
    this.code = code
    this.type = ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request' : 'server_error')
    this.details = options.details ?? []
    this.retryAfterSeconds = options.retryAfterSeconds
    this.headers = {
      ...options.headers,
      ...(options.retryAfterSeconds !== undefined && { 'retry-after': String(options.retryAfterSeconds) }),
    }
    this.facts = options.facts ?? {}
    this.advice = options.advice
  }
}

const ERROR_TYPES: Readonly<Record<number, ErrorType>> = {
  400: 'validation_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found',
  408: 'timeout',
  409: 'conflict',
  422: 'validation_error',
  429: 'rate_limit_exceeded',
}

/** 422 that names the invalid field. */
export const invalid = (field: string, message: string, code = 'validation_failed'): AppError =>
  new AppError(422, code, message, { details: [{ field, message }] })

/**
 * The body of every 401 is the same.
 * @param problem what is wrong with the request, for the header `WWW-Authenticate` (RFC 6750 §3); without quotes
 * @param error as RFC 6750 §3.1 names it
 */
export const unauthorized = (
  problem?: string,
  error: 'invalid_request' | 'invalid_token' = 'invalid_request',
): AppError =>
  new AppError(
    401,
    'invalid_api_key',
    'Invalid API key',
    problem === undefined
      ? {}
      : {
          headers: { 'www-authenticate': `Bearer error="${error}", error_description="${problem}"` },
          advice: problem,
        },
  )

export const notFound = (code: string, message: string): AppError => new AppError(404, code, message)

export const conflict = (code: string, message: string): AppError => new AppError(409, code, message)

export const tooManyRequests = (code: string, message: string, retryAfterSeconds: number): AppError =>
  new AppError(429, code, message, { retryAfterSeconds: Math.max(1, Math.ceil(retryAfterSeconds)) })

/** The 507 for a write of this size on a disk that is not low otherwise: its cause tells the operator in the log. */
export const tooLittleSpace = (bytes: number): AppError =>
  insufficientStorage(
    new Error(`${bytes} bytes more would leave less than TASSIS_MIN_FREE_DISK on the disk; see \`tassis disk\``),
  )

export const insufficientStorage = (cause?: unknown): AppError =>
  new AppError(
    507,
    'insufficient_storage',
    'The server has no disk space left; nothing was accepted. Try again later.',
    {
      cause,
    },
  )

/** The code of an error of the system, of SQLite or of a library; '' without one. */
export function systemCodeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return ''
  return typeof error.code === 'string' ? error.code : ''
}

export const isOutOfFiles = (error: unknown): boolean => /^E[MN]FILE$/.test(systemCodeOf(error))

/** The result of `read`; undefined when it throws. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** The result of `read`; undefined when its file or folder does not exist. Throws any other error. */
export function unlessMissing<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
