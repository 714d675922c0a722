/**
 * @module The only module that turns errors into responses. Client mistakes are described in full. For any other error
 * the client gets a fixed sentence, and the log gets the cause; both contain the request id.
 */

import { toStorageError } from '#platform/disk/storage-errors.ts'
import { AppError } from '../errors.ts'
import type { DialectErrorResponse } from './dialect.ts'

/**
 * Status, headers and body of the response to `error`. The body has the fields of the error twice, at the top level and
 * below `error`: some clients read one form, some the other.
 */
export function toErrorResponseData(error: AppError, requestId: string): DialectErrorResponse {
  const { status, code, message, type, details, retryAfterSeconds, facts } = error
  return {
    status,
    headers: {
      // RFC 9110 §15.5.2: a 401 names the scheme.
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
      ...error.headers,
    },
    body: {
      ...facts,
      error: { code, message, type, docs_url: null },
      code,
      message,
      type,
      request_id: requestId,
      ...(details.length > 0 ? { details } : {}),
      ...(retryAfterSeconds === undefined ? {} : { retry_after: retryAfterSeconds }),
    },
  }
}

/** Builds the same error as a Response, for requests that no route handles. */
export function toErrorResponse(error: AppError, requestId: string): Response {
  const { status, headers, body } = toErrorResponseData(error, requestId)
  return Response.json(body, {
    status,
    headers: {
      ...headers,
      'x-request-id': requestId,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    },
  })
}

/** The response for a bug. The cause is for the log only. */
export const internalError = (cause: unknown): AppError =>
  new AppError(500, 'internal_error', 'Internal error; quote the request id when you report it.', {
    cause,
  })

/** @param nearest the route that was probably meant */
export const unknownRoute = (nearest?: string): AppError =>
  new AppError(
    404,
    'route_not_found',
    `No such route; ${nearest === undefined ? '' : `did you mean ${nearest}? `}/docs describes all routes.`,
  )

/** @param allowed the methods of the path, for `Allow` (RFC 9110 §15.5.6) */
export const wrongMethod = (method: string, allowed: readonly string[]): AppError =>
  new AppError(405, 'method_not_allowed', `${method} is not allowed here; use ${allowed.join(', ')}.`, {
    headers: { allow: allowed.join(', ') },
  })

/** The response to OPTIONS: the methods of a path (RFC 9110 §9.3.7), or a 404 for a path without any. */
export const optionsResponse = (
  methods: readonly string[],
  requestId: string,
  headers: Readonly<Record<string, string>>,
): Response =>
  methods.length === 0
    ? toErrorResponse(unknownRoute(), requestId)
    : new Response(null, {
        status: 204,
        headers: { allow: [...methods, 'OPTIONS'].sort().join(', '), 'x-request-id': requestId, ...headers },
      })

/**
 * @param purpose which part of the request needs the scope, such as `for welcome emails`; left out when the route
 * itself needs the scope
 */
export const insufficientScope = (scope: string, purpose?: string): AppError =>
  new AppError(
    403,
    'insufficient_scope',
    `This API key lacks the scope ${scope}${purpose === undefined ? '' : `, which is needed ${purpose}`}.`,
  )

/** The properties of Elysia's own errors. */
interface FrameworkError {
  readonly code?: unknown
  readonly cause?: unknown
  /** For a validation error: which part of request or response is invalid. */
  readonly type?: unknown
  /** For a validation error: the first problem found. */
  readonly valueError?: { readonly path?: unknown; readonly message?: unknown } | null
}

/**
 * Turns anything thrown into an AppError. `isLogged`: the cause must be logged, because the client does not get it.
 * @param notFound creates the error for a request without a route
 */
export function toAppError(thrown: unknown, notFound: () => AppError): { error: AppError; isLogged: boolean } {
  if (thrown instanceof AppError) return { error: thrown, isLogged: thrown.status >= 500 && thrown.cause !== undefined }
  const { code, cause, type, valueError } = (
    typeof thrown === 'object' && thrown !== null ? thrown : {}
  ) as FrameworkError
  if (code === 'NOT_FOUND') return { error: notFound(), isLogged: false }
  // Elysia wraps errors thrown by its hooks.
  if (cause instanceof AppError) return toAppError(cause, notFound)
  const storage = toStorageError(thrown)
  if (storage instanceof AppError) return { error: storage, isLogged: true }
  // The original contains the whole value, possibly a secret that is shown only once; it must not reach the log.
  const reason =
    code === 'VALIDATION'
      ? new Error(`${type} does not match its schema at "${valueError?.path}": ${valueError?.message}`)
      : thrown
  return { error: internalError(reason), isLogged: true }
}
