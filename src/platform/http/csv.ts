/**
 * @module What a route says, inside its `detail`, that takes or gives CSV: the server reads the body by it, and the API description tells it.
 */
import { acceptsBody } from './body.ts'

export const CSV_TYPE = 'text/csv'

const toCsvContent = (description: string) => ({ [CSV_TYPE]: { schema: { type: 'string', description } } }) as const

/** `detail: { ..., ...csvBody('...') }`: the body is CSV and reaches the handler as its bytes, undefined when it is empty. */
export const csvBody = (description: string) => ({
  ...acceptsBody('csv'),
  requestBody: { required: true, content: toCsvContent(description) },
})

/** The same for a file of any length: it reaches the handler as a `BodyStream`. */
export const csvStreamBody = (description: string) => ({
  ...acceptsBody('csv-stream'),
  requestBody: { required: true, content: toCsvContent(description) },
})

/** The answer is CSV. */
export const csvResponseSpec = (description: string) => ({
  responses: { 200: { description: 'Done.', content: toCsvContent(description) } },
})
