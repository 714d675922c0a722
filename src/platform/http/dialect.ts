/**
 * @module Other providers' interfaces ("dialects"), spoken by the same server: their paths, where their clients put the
 * key, and the form of their errors. Everything else (limits of bodies, access, fairness, log) is that of `/v1`.
 */
import type { AppError } from '../errors.ts'

export interface Dialect {
  /** Whether a path belongs to this dialect; never true for a path of `/v1` or of a page. */
  readonly speaks: (path: string) => boolean
  /** The API key of a request; throws an AppError 401 without one. */
  readonly readApiKey: (headers: Headers) => string
  /** An error in the form that the provider's clients read. */
  readonly toErrorResponse: (error: AppError, requestId: string) => DialectErrorResponse
}

export interface DialectErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}
