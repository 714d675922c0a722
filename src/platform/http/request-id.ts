/** @module Ids of requests: a client's own is kept when it is sane, so that its log and ours can be joined. */

const VALID_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The id to use for a request that came with `given` in `X-Request-Id`. */
export const chooseRequestId = (given: string | null, newRequestId: () => string): string =>
  given !== null && VALID_REQUEST_ID.test(given) ? given : newRequestId()
