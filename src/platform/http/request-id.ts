/**
 * @module Request ids: a client's own id is used when it is valid, so that the client's log and ours can be matched.
 */

const VALID_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The id for a request with `given` in `X-Request-Id`. */
export const chooseRequestId = (given: string | null, newRequestId: () => string): string =>
  given !== null && VALID_REQUEST_ID.test(given) ? given : newRequestId()
