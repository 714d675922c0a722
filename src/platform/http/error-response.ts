/**
 * @module The one place that turns an error into an answer. What a client did wrong is said in full; anything else is a fixed sentence for
 * the client and the cause for the log, under the same request id.
 */
import { AppError, type ErrorDetail, type ErrorType } from '../errors.ts'
import { toStorageError } from '../storage-errors.ts'

/** Flat and nested at once, because some clients read the one and some the other. */
export interface ErrorBody {
  error: { code: string; message: string; type: ErrorType; docs_url: null }
  code: string
  message: string
  type: ErrorType
  request_id: string
  details?: readonly ErrorDetail[]
  retry_after?: number
}

export interface ErrorResponseData {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ErrorBody
}

/** The answer to `error`. */
export function toErrorResponseData(error: AppError, requestId: string): ErrorResponseData {
  const { status, code, message, type, details, retryAfterSeconds, facts } = error
  return {
    status,
    headers: {
      ...error.headers,
      ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
      // RFC 9110 §15.5.2: a 401 names the scheme.
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
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

/** The same as a Response, for answers given outside of a route. */
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

/** What a client is told of a bug of ours. The cause is for the log only. */
export const internalError = (cause: unknown): AppError =>
  new AppError(500, 'internal_error', 'Something went wrong on our side; give the request id when you report it.', {
    cause,
  })

export const unknownRoute = (): AppError =>
  new AppError(404, 'route_not_found', 'There is nothing at this address; /docs describes what there is.')

/** @param allowed the methods that the path has, for `Allow` (RFC 9110 §15.5.6) */
export const wrongMethod = (method: string, allowed: readonly string[]): AppError =>
  new AppError(405, 'method_not_allowed', `${method} is not possible here; use ${allowed.join(', ')}.`, {
    headers: { allow: allowed.join(', ') },
  })

/** The response to OPTIONS: the methods of a path (RFC 9110 §9.3.7), or the 404 of one that has none. */
export const optionsResponse = (methods: readonly string[], requestId: string): Response =>
  methods.length === 0
    ? toErrorResponse(unknownRoute(), requestId)
    : new Response(null, {
        status: 204,
        headers: { allow: [...methods, 'OPTIONS'].sort().join(', '), 'x-request-id': requestId },
      })

/** @param purpose what of the request needs it, where the route alone does not: `for welcome emails` */
export const insufficientScope = (scope: string, purpose?: string): AppError =>
  new AppError(
    403,
    'insufficient_scope',
    `This API key lacks the scope ${scope}${purpose === undefined ? '' : `, which is needed ${purpose}`}.`,
  )

/** How Elysia marks its own errors. */
interface FrameworkError {
  readonly code?: unknown
  readonly cause?: unknown
  /** Of a validation error: the part of the exchange. */
  readonly type?: unknown
  /** Of a validation error: its first fault. */
  readonly valueError?: { readonly path?: unknown; readonly message?: unknown } | null
}

/**
 * Any thrown thing as an AppError. `isLogged` says that the cause must be logged, because a client is not told.
 * @param notFound what a request without a route is answered
 */
export function toAppError(thrown: unknown, notFound: () => AppError): { error: AppError; isLogged: boolean } {
  if (thrown instanceof AppError) return { error: thrown, isLogged: thrown.status >= 500 && thrown.cause !== undefined }
  const { code, cause, type, valueError } = (
    typeof thrown === 'object' && thrown !== null ? thrown : {}
  ) as FrameworkError
  if (code === 'NOT_FOUND') return { error: notFound(), isLogged: false }
  // Elysia wraps what its hooks throw.
  if (cause instanceof AppError) return toAppError(cause, notFound)
  const storage = toStorageError(thrown)
  if (storage instanceof AppError) return { error: storage, isLogged: true }
  // The original holds the whole value, which may be a secret that is shown only once; it must not reach the log.
  const reason =
    code === 'VALIDATION'
      ? new Error(`${type} does not match its schema at "${valueError?.path}": ${valueError?.message}`)
      : thrown
  return { error: internalError(reason), isLogged: true }
}
