/**
 * @module Declares in a route's `detail` that the route takes or returns CSV. The server reads the body accordingly,
 * and the API description shows it.
 */
import { acceptsBody } from './body.ts'
import { fileResponseSpec } from './download.ts'

export const CSV_TYPE = 'text/csv'

/**
 * `detail: { ..., ...csvBody('...') }`: the body is CSV; the handler gets its bytes, undefined when it is empty.
 * @param format `csv-stream`: for a body of any length; the handler gets a `BodyStream`
 */
export const csvBody = (description: string, format: 'csv' | 'csv-stream' = 'csv') => ({
  ...acceptsBody(format),
  requestBody: { required: true, content: { [CSV_TYPE]: { schema: { type: 'string' as const, description } } } },
})

/** The response is CSV. */
export const csvResponseSpec = (description: string) =>
  fileResponseSpec('Done.', CSV_TYPE, { type: 'string', description })
