/**
 * @module Lets pages of listed origins call the API with a key (CORS, Fetch §3.2). Without credentials: the session
 * cookie of a signed-in user never works from another site.
 */

const ALLOWED_HEADERS =
  'authorization, content-type, idempotency-key, if-none-match, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, x-batch-validation, x-confirm-delete, x-postmark-server-token, x-request-id, x-service-api-key, x-tassis-idempotency-key'
const EXPOSED_HEADERS =
  'etag, idempotency-mismatch, idempotency-replayed, location, ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, tassis-ignored, www-authenticate, x-request-id'
/** How long a browser may remember the answer to a preflight. */
const MAX_AGE_SECONDS = 600

/**
 * The headers for a request from another origin; none if the origin is not listed.
 * @param methods of the path, for a preflight
 */
export function crossOriginHeaders(
  origins: readonly string[],
  request: Request,
  methods: readonly string[],
): Record<string, string> {
  const origin = request.headers.get('origin')
  if (origins.length === 0 || origin === null || !origins.includes(origin)) return {}
  const headers = { 'access-control-allow-origin': origin, vary: 'Origin' }
  if (request.method !== 'OPTIONS' || !request.headers.has('access-control-request-method'))
    return { ...headers, 'access-control-expose-headers': EXPOSED_HEADERS }
  return {
    ...headers,
    'access-control-allow-methods': methods.join(', '),
    'access-control-allow-headers': ALLOWED_HEADERS,
    'access-control-max-age': String(MAX_AGE_SECONDS),
  }
}
