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

/** Postmark's `ErrorCode` and HTTP status. */
type PostmarkCode = Readonly<Record<'code' | 'status', number>>

/** Any invalid request that has no code of its own. */
const INVALID_REQUEST = 300
export const INACTIVE_RECIPIENT = 406

const UNPROCESSABLE = 422

/** By the code of our errors. Codes without an entry follow from the status. */
const CODES: ReadonlyMap<string, PostmarkCode> = new Map([
  // A key without the scope has no access, which Postmark's clients know only as a wrong key.
  ['insufficient_scope', { code: 10, status: 401 }],
  ['domain_not_found', { code: 400, status: UNPROCESSABLE }],
  ['domain_not_verified', { code: 401, status: UNPROCESSABLE }],
  ['invalid_json', { code: 402, status: UNPROCESSABLE }],
  ['incompatible_json', { code: 403, status: UNPROCESSABLE }],
  ['quota_exceeded', { code: 405, status: UNPROCESSABLE }],
  ['inactive_recipient', { code: INACTIVE_RECIPIENT, status: UNPROCESSABLE }],
  ['unsupported_media_type', { code: 409, status: 415 }],
  ['too_many_messages', { code: 410, status: UNPROCESSABLE }],
  ['attachment_type_forbidden', { code: 411, status: UNPROCESSABLE }],
  ['sandbox_limit', { code: 412, status: UNPROCESSABLE }],
  ['account_paused', { code: 413, status: UNPROCESSABLE }],
  ['invalid_message_query', { code: 700, status: UNPROCESSABLE }],
  ['email_not_found', { code: 701, status: UNPROCESSABLE }],
  ['invalid_bounce_query', { code: 1000, status: UNPROCESSABLE }],
  ['bounce_not_found', { code: 1001, status: UNPROCESSABLE }],
  ['bounce_not_activated', { code: 1003, status: UNPROCESSABLE }],
  ['invalid_template_query', { code: 1100, status: UNPROCESSABLE }],
  ['template_not_found', { code: 1101, status: UNPROCESSABLE }],
  ['too_many_templates', { code: 1105, status: UNPROCESSABLE }],
  ['plan_limit_reached', { code: 1105, status: UNPROCESSABLE }],
  ['template_missing', { code: 1120, status: UNPROCESSABLE }],
  ['template_error', { code: 1122, status: UNPROCESSABLE }],
  ['template_limit', { code: 1122, status: UNPROCESSABLE }],
  ['template_exists', { code: 1122, status: UNPROCESSABLE }],
  ['stream_not_found', { code: 1235, status: UNPROCESSABLE }],
])

/** Our names of fields and Postmark's, so that messages name what the client sent. */
const FIELDS: readonly (readonly [RegExp, string])[] = [
  [/\bhtml_body\b/g, 'HtmlBody'],
  [/\btext_body\b/g, 'TextBody'],
  [/\breply_to\b/g, 'ReplyTo'],
  [/\btemplate_data\b/g, 'TemplateModel'],
  [/\btemplate_alias\b/g, 'TemplateAlias'],
  [/\blocale\b/g, 'Locale'],
  [/\bcontent_id\b/g, 'ContentID'],
  [/\bcontent_type\b/g, 'ContentType'],
  [/\battachments\.(\d+)\.filename\b/g, 'Attachments.$1.Name'],
  [/\battachments\.(\d+)\.content\b/g, 'Attachments.$1.Content'],
]

const withPostmarkNames = (message: string): string =>
  FIELDS.reduce((text, [pattern, name]) => text.replace(pattern, name), message)

function toErrorCode(code: string, status = UNPROCESSABLE): PostmarkCode {
  const known = CODES.get(code)
  if (known) return known
  if (status === 401) return { code: 10, status }
  // Clients repeat a request after a 429 and a 503.
  if (status === 429) return { code: 429, status }
  if (status === 503 || status === 507) return { code: 100, status: 503 }
  if (status >= 500) return { code: 500, status }
  if (status === 404 || status === 405) return { code: 404, status: 404 }
  if (status === 408 || status === 413) return { code: INVALID_REQUEST, status }
  return { code: INVALID_REQUEST, status: UNPROCESSABLE }
}

export interface PostmarkError {
  readonly ErrorCode: number
  readonly Message: string
}

export const toErrorResult = (code: string, message: string): PostmarkError => ({
  ErrorCode: toErrorCode(code).code,
  Message: withPostmarkNames(message),
})

const ABSENT =
  "Tassis does not offer this part of Postmark's interface; docs/drop-in.md lists the routes that it has, and /docs those of its own interface."
const NO_KEY = 'X-Postmark-Server-Token must be an API key of Tassis; `tassis keys create` makes one.'

function describe({ code, message, advice }: AppError): string {
  if (code === 'route_not_found' || code === 'method_not_allowed') return ABSENT
  return code === 'invalid_api_key' ? (advice ?? NO_KEY) : withPostmarkNames(message)
}

function toPostmarkError(error: AppError): DialectErrorResponse {
  const { code, status } = toErrorCode(error.code, error.status)
  return {
    status,
    headers: { ...error.headers, 'x-pm-apierrorcode': String(code) },
    body: { ErrorCode: code, Message: describe(error) },
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
