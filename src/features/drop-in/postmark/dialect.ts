/**
 * @module Postmark's interface as a dialect of the HTTP server: its paths below `/postmark`, and its sends at the root,
 * because some of its clients can set only a host. The key is in `X-Postmark-Server-Token`. Errors
 * are `ErrorCode` and `Message`; clients choose their error class by the HTTP status and the codes 300 (invalid) and 406
 * (all recipients are suppressed).
 */
import type { Actor } from '#features/core/app/app.ts'
import type { AppError } from '#platform/errors.ts'
import { readApiKeyText } from '#platform/http/authenticate.ts'
import type { Dialect, DialectErrorResponse } from '#platform/http/dialect.ts'
import errors from './errors.json' with { type: 'json' }

/** Any invalid request that has no code of its own. */
const INVALID_REQUEST = 300
export const INACTIVE_RECIPIENT = errors.codes.inactive_recipient

/** By the code of our errors. Codes without an entry follow from the status. */
const CODES: ReadonlyMap<string, number> = new Map(Object.entries(errors.codes))
/** Of a code of ours; all others are 422. A key without the scope is only known as a wrong key. */
const STATUSES: ReadonlyMap<string, number> = new Map([
  ['insufficient_scope', 401],
  ['unsupported_media_type', 415],
])

/** Our names of fields and Postmark's, so that messages name what the client sent. */
const FIELDS = Object.entries(errors.names).map(([name, theirs]) => [new RegExp(`\\b${name}\\b`, 'g'), theirs] as const)

const withPostmarkNames = (message: string): string =>
  FIELDS.reduce((text, [pattern, name]) => text.replace(pattern, name), message)

/** Postmark's `ErrorCode` and HTTP status. */
function toErrorCode(own: string, status = 422): Readonly<Record<'code' | 'status', number>> {
  const code = CODES.get(own)
  if (code !== undefined) return { code, status: STATUSES.get(own) ?? 422 }
  if (status === 401) return { code: 10, status }
  // Clients repeat a request after a 429 and a 503.
  if (status === 429) return { code: 429, status }
  if (status === 503 || status === 507) return { code: 100, status: 503 }
  if (status >= 500) return { code: 500, status }
  if (status === 404 || status === 405) return { code: 404, status: 404 }
  return { code: INVALID_REQUEST, status: status === 408 || status === 413 ? status : 422 }
}

export const toErrorResult = (code: string, message: string) => ({
  ErrorCode: toErrorCode(code).code,
  Message: withPostmarkNames(message),
})
export type PostmarkError = ReturnType<typeof toErrorResult>

const ABSENT =
  "Tassis does not offer this part of Postmark's interface; docs/drop-in.md lists the routes that it has, and /docs those of its own interface."
const NO_KEY = 'X-Postmark-Server-Token must be an API key of Tassis; `tassis keys create` makes one.'

function toPostmarkError({ code: own, status: ownStatus, message, advice, headers }: AppError): DialectErrorResponse {
  const { code, status } = toErrorCode(own, ownStatus)
  const isAbsent = own === 'route_not_found' || own === 'method_not_allowed'
  const text = own === 'invalid_api_key' ? (advice ?? NO_KEY) : withPostmarkNames(message)
  return {
    status,
    headers: { ...headers, 'x-pm-apierrorcode': String(code) },
    body: { ErrorCode: code, Message: isAbsent ? ABSENT : text },
  }
}

export const POSTMARK_PREFIX = '/postmark'

const TOKEN_HEADER = 'x-postmark-server-token'
/** Postmark's public test token: requests with it are checked, and nothing is sent. Its case does not matter. */
const TEST_TOKEN = 'postmark_api_test'

/** The actor of the test token. It belongs to no account, so all users of the token share the work of one account. */
const TEST_ACTOR: Actor = {
  accountId: 0,
  accountUuid: '',
  type: 'api_key',
  id: TEST_TOKEN,
  scopes: new Set(['emails:send']),
}

export const isTestActor = (actor: Actor): boolean => actor === TEST_ACTOR

const isSendPath = (path: string): boolean => path === '/email' || path.startsWith('/email/')

export const postmarkDialect: Dialect<Actor> = {
  name: 'postmark',
  speaks: (path) => path === POSTMARK_PREFIX || path.startsWith(`${POSTMARK_PREFIX}/`) || isSendPath(path),
  readApiKey: (headers) => readApiKeyText(headers.get(TOKEN_HEADER)?.trim()),
  guestOf: (headers) => (headers.get(TOKEN_HEADER)?.trim().toLowerCase() === TEST_TOKEN ? TEST_ACTOR : undefined),
  toErrorResponse: toPostmarkError,
}
