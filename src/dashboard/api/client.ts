/** @module Requests to `/v1` with the session cookie, and their errors. */
import type { Pagination } from '#platform/http/envelope.ts'

/** An error response of `/v1`, or a request without a response. */
export class ApiError extends Error {
  /** 0: there was no response. */
  readonly status: number
  readonly code: string
  readonly requestId: string | undefined
  readonly details: readonly { readonly field?: string; readonly message: string }[]
  /** Seconds after which a retry may succeed. */
  readonly retryAfter: number | undefined

  constructor(status: number, body: ErrorFields) {
    super(body.message ?? `The server responded with status ${status}.`)
    this.status = status
    this.code = body.code ?? 'unknown'
    this.requestId = body.request_id
    this.details = body.details ?? []
    this.retryAfter = body.retry_after
  }
}

interface ErrorFields {
  readonly code?: string
  readonly message?: string
  readonly request_id?: string
  readonly details?: readonly { readonly field?: string; readonly message: string }[]
  readonly retry_after?: number
}

/** The response of a list. */
export interface PageOf<Row> {
  readonly data: readonly Row[]
  readonly pagination: Pagination
}

export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>

let csrfToken = ''
/** Held in memory only: a page of another origin must not find it. */
export const rememberCsrfToken = (token: string): void => {
  csrfToken = token
}

let onSignedOut = (): void => {}
/** @param listener called when a request finds that the session has ended */
export const listenForSignOut = (listener: () => void): void => {
  onSignedOut = listener
}

let onForbidden = (): void => {}
/** @param listener called when a change was forbidden: the role may have changed */
export const listenForForbidden = (listener: () => void): void => {
  onForbidden = listener
}

/** `/v1` path with the query; undefined and empty values are left out. */
export function toUrl(path: string, query: QueryValues = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') parameters.set(name, String(value))
  return parameters.size === 0 ? path : `${path}?${parameters}`
}

export interface RequestOptions {
  readonly query?: QueryValues
  /** Sent as JSON; a Blob as it is, with its type. */
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** Lets a request be repeated without a second effect, where the route takes such a key. */
  readonly idempotencyKey?: string
  /** Further headers, such as the confirmation of a deletion. */
  readonly headers?: Readonly<Record<string, string>>
}

/** A new key for `idempotencyKey`; works in insecure contexts too. */
export const newIdempotencyKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')

/** Sends a request and returns the JSON of the response; undefined for 204. @throws ApiError */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const { query, body, signal, idempotencyKey, headers } = options
  const response = await send(toUrl(path, query), {
    method,
    headers: {
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': body instanceof Blob ? body.type : 'application/json' }),
      ...(method !== 'GET' && { 'x-csrf-token': csrfToken }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      ...headers,
    },
    ...(body !== undefined && { body: body instanceof Blob ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
  })
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T
  throw await toRequestError(response, method, path)
}

/** As `request`, for a response with `data`, which it returns. */
export const requestData = async <T>(method: string, path: string, options?: RequestOptions): Promise<T> =>
  (await request<{ data: T }>(method, path, options)).data

/** The error of a response; the page also learns of a session that has ended and of a role that was changed. */
export async function toRequestError(response: Response, method: string, path: string): Promise<ApiError> {
  const error = await toApiError(response)
  // The sign-in itself also responds with 401, which is about the password.
  if (error.status === 401 && path !== '/v1/auth/login') {
    onSignedOut()
    return new ApiError(401, { code: error.code, message: 'Your session had ended. Sign in again, then repeat this.' })
  }
  // Only the age of the password; the role is the same.
  if (error.status === 403 && method !== 'GET' && error.code !== 'password_required') onForbidden()
  return error
}

export const get = <T>(path: string, query?: QueryValues, signal?: AbortSignal): Promise<T> =>
  request('GET', path, { ...(query && { query }), ...(signal && { signal }) })

export async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { ...init, credentials: 'same-origin', cache: 'no-store' })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError(0, { code: 'no_connection', message: 'The server cannot be reached.' })
  }
}

async function toApiError(response: Response): Promise<ApiError> {
  const fields = (await response.json().catch(() => ({}))) as ErrorFields
  return new ApiError(response.status, fields)
}
