/**
 * @module Declares in a route's `detail` the errors and the headers that only this route returns; the API description
 * lists them beside the common ones. The server uses `locatedAt`.
 */

export const ERROR_RESPONSES = 'x-refusals'

/**
 * `detail: { ..., ...errorResponses({ 409: ['name_taken', 'The name is taken.'] }) }`: for each status, the error code
 * and when the error occurs.
 */
export const errorResponses = (refusals: Readonly<Record<number, readonly [code: string, when: string]>>) => ({
  [ERROR_RESPONSES]: refusals,
})

export const RESPONSE_HEADERS = 'x-response-headers'

/** Headers that a success of this route may have; each is a component of the description. */
export const responseHeaders = (...names: readonly string[]) => ({ [RESPONSE_HEADERS]: names })

export const LOCATED_AT = 'x-located-at'

/** What the route creates is read at `path` and its id, not below the path of the route. */
export const locatedAt = (path: string) => ({ [LOCATED_AT]: path })
