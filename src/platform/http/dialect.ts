/**
 * @module Other providers' interfaces ("dialects"), spoken by the same server: their paths, where their clients put the
 * key, and the form of their errors. Everything else (limits of bodies, access, fairness, log) is that of `/v1`.
 */
import type { AppError } from '../errors.ts'

/** `Guest`: the type of the server's actors. */
export interface Dialect<Guest = never> {
  readonly name: string
  /** Whether a path belongs to this dialect; never true for a path of `/v1` or of a page. */
  readonly speaks: (path: string) => boolean
  /** The API key of a request; throws an AppError 401 without one. */
  readonly readApiKey: (headers: Headers) => string
  /**
   * The actor of a request that has no account, such as one with the provider's public test token; undefined: the
   * request needs an API key. A guest may send only bodies of the size that strangers may send.
   */
  readonly guestOf?: (headers: Headers) => Guest | undefined
  /** An error in the form that the provider's clients read. */
  readonly toErrorResponse: (error: AppError, requestId: string, path: string) => DialectErrorResponse
}

export interface DialectErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}
