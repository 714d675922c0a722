/** @module What a route says, inside its `detail`, of errors that are its own; the API description tells them beside those of every route. */

export const ERROR_RESPONSES = 'x-refusals'

/** `detail: { ..., ...refuses({ 409: ['name_taken', 'The name is taken.'] }) }`: by status, the error's code and when it comes. */
export const errorResponses = (refusals: Readonly<Record<number, readonly [code: string, when: string]>>) => ({
  [ERROR_RESPONSES]: refusals,
})
