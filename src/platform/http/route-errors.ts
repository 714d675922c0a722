/**
 * @module Declares in a route's `detail` the errors that only this route returns; the API description lists them beside
 * the common errors.
 */

export const ERROR_RESPONSES = 'x-refusals'

/**
 * `detail: { ..., ...errorResponses({ 409: ['name_taken', 'The name is taken.'] }) }`: for each status, the error code
 * and when the error occurs.
 */
export const errorResponses = (refusals: Readonly<Record<number, readonly [code: string, when: string]>>) => ({
  [ERROR_RESPONSES]: refusals,
})
