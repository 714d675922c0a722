/** @module Declares in a route's `detail` its own errors; the API description lists them beside the common ones. */

export const ERROR_RESPONSES = 'x-refusals'

/**
 * `detail: { ..., ...errorResponses({ 409: ['name_taken', 'The name is taken.'] }) }`: by status, the error code and
 * when it occurs.
 */
export const errorResponses = (refusals: Readonly<Record<number, readonly [code: string, when: string]>>) => ({
  [ERROR_RESPONSES]: refusals,
})
