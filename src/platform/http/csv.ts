/**
 * @module Declares in a route's `detail` that the route takes or returns CSV. The server reads the body accordingly,
 * and the API description shows it.
 */
import { acceptsBody } from './body.ts'
import { responseHeaders } from './route-errors.ts'

export const CSV_TYPE = 'text/csv'

const toCsvContent = (description: string) => ({ [CSV_TYPE]: { schema: { type: 'string', description } } }) as const

/** `detail: { ..., ...csvBody('...') }`: the body is CSV; the handler gets its bytes, undefined when it is empty. */
export const csvBody = (description: string) => ({
  ...acceptsBody('csv'),
  requestBody: { required: true, content: toCsvContent(description) },
})

/** Like `csvBody`, for a body of any length; the handler gets a `BodyStream`. */
export const csvStreamBody = (description: string) => ({
  ...acceptsBody('csv-stream'),
  requestBody: { required: true, content: toCsvContent(description) },
})

/** The response is CSV. */
export const csvResponseSpec = (description: string) => ({
  responses: { 200: { description: 'Done.', content: toCsvContent(description) } },
  ...responseHeaders('Content-Disposition'),
})
