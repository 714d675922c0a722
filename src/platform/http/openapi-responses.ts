/** @module The responses in the API description: their headers, the errors, and the success of each operation. */
import { Type } from '@sinclair/typebox'
import { AppError, ERROR_TYPE_NAMES, tooManyRequests, unauthorized } from '../errors.ts'
import { insufficientScope, toErrorResponseData } from './error-response.ts'
import { EVENT_STREAM_TYPE } from './event-stream.ts'
import { type Json, type JsonObject, keepJsonOnly, toArray, toObject } from './openapi-examples.ts'
import { Count, notFoundById, Part, Text } from './schemas.ts'
import { SESSION_COOKIE } from './session.ts'
import { invalidFields } from './validation.ts'

const ERROR_SCHEMA = Type.Object(
  {
    error: Part('The same error, for clients that expect it in `error`.', {
      code: Text('The same as `code` below.'),
      message: Text('The same as `message` below.'),
      type: Text('The same as `type` below.'),
      docs_url: Type.Unsafe({ type: ['string', 'null'], description: 'Always null.' }),
    }),
    code: Type.String({ description: 'Stable name of the error.', examples: ['validation_failed'] }),
    message: Text('One sentence that says how to fix it.'),
    type: Type.String({ description: 'Kind of the error.', enum: ERROR_TYPE_NAMES }),
    request_id: Text('The same as in the header X-Request-Id.'),
    details: Type.Optional(
      Type.Array(
        Type.Object({
          field: Type.String({ description: 'Path of the field.', examples: ['attachments.0.filename'] }),
          message: Text('What is wrong with it.'),
        }),
        { description: 'The invalid fields.' },
      ),
    ),
    retry_after: Type.Optional(Count('Seconds to wait; the same as in the header Retry-After.')),
  },
  { description: 'The body of every error. The fields of `error` are repeated at the top level.' },
)

/** @param example an error that the service returns in this case */
const describeErrorResponse = (description: string, example: AppError): JsonObject => ({
  description,
  ...listHeaders([
    'X-Request-Id',
    ...(example.status === 401 ? ['WWW-Authenticate'] : []),
    ...(example.status === 429 || example.status === 503 ? ['Retry-After'] : []),
    ...(example.status === 429 ? RATE_HEADERS : []),
  ]),
  content: {
    'application/json': {
      schema: { $ref: '#/components/schemas/Error' },
      example: JSON.parse(JSON.stringify(toErrorResponseData(example, EXAMPLE_ID).body)) as Json,
    },
  },
})

const EXAMPLE_ID = '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24'

const RATE_HEADERS = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']

const describeHeader = (description: string, type = 'string'): JsonObject => ({ description, schema: { type } })

/** Headers of responses, by the name of their component. */
const HEADERS: JsonObject = {
  'X-Request-Id': describeHeader('Id of the request, for questions about it; your own if you sent this header.'),
  'Retry-After': describeHeader('Seconds until the same request may succeed.', 'integer'),
  'WWW-Authenticate': describeHeader('The scheme `Bearer`, and what is wrong with the header of the request.'),
  ETag: describeHeader('Send it in `If-None-Match` to get a 304 without body while nothing has changed.'),
  Location: describeHeader('Path of what was created or started.'),
  'Content-Disposition': describeHeader('Name of the file.'),
  'Set-Cookie': describeHeader('The session; after signing out, its end.'),
  'RateLimit-Limit': describeHeader('Send requests that the account can make at once.', 'integer'),
  'RateLimit-Remaining': describeHeader('Send requests that are left of them now.', 'integer'),
  'RateLimit-Reset': describeHeader('Seconds until all of them are there again.', 'integer'),
  'Idempotency-Replayed': describeHeader('`true`: the key was used before, and this is the response to that request.'),
  'Idempotency-Mismatch': describeHeader(
    '`true`: the key was used for another body; that email stays, and nothing new was sent.',
  ),
}

const listHeaders = (names: readonly string[]): JsonObject => ({
  headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
})

export const COMPONENTS: JsonObject = {
  headers: HEADERS,
  schemas: { Error: JSON.parse(JSON.stringify(ERROR_SCHEMA)) as Json },
  responses: {
    NotModified: {
      description: 'The resource is as `If-None-Match` of the request names it.',
      ...listHeaders(['X-Request-Id', 'ETag']),
    },
    Error: describeErrorResponse(
      'Any other error.',
      new AppError(500, 'internal_error', 'Internal error; quote the request id when you report it.'),
    ),
    BadRequest: describeErrorResponse(
      'The body is not JSON, or not UTF-8.',
      new AppError(400, 'invalid_json', 'The body is not valid JSON.'),
    ),
    Conflict: describeErrorResponse(
      'The idempotency key was used for another request.',
      new AppError(409, 'idempotency_conflict', 'The idempotency key was used for another request; use a new one.'),
    ),
    TooManyRequests: describeErrorResponse(
      'A rate or quota of the account is used up.',
      tooManyRequests('rate_limited', 'Too many requests; wait before the next one.', 1),
    ),
    Unavailable: describeErrorResponse(
      'The service is busy or cannot write; nothing was stored.',
      new AppError(503, 'server_busy', 'The service is busy; try again in a moment.', { retryAfterSeconds: 1 }),
    ),
    Unauthorized: describeErrorResponse('The API key is missing or unknown, and no user is signed in.', unauthorized()),
    Forbidden: describeErrorResponse(
      'The API key lacks the scope, or the role of the user does not allow this.',
      insufficientScope('domains:read'),
    ),
    NotFound: describeErrorResponse(
      'The account has no resource with this id.',
      notFoundById('domain_not_found', 'domain'),
    ),
    Invalid: describeErrorResponse(
      'A field is invalid; `details` names it.',
      invalidFields([{ field: 'subject', message: 'is required' }]),
    ),
  },
  securitySchemes: {
    bearer: { type: 'http', scheme: 'bearer', description: 'The API key in `Authorization: Bearer`.' },
    serviceApiKey: {
      type: 'apiKey',
      in: 'header',
      name: 'X-Service-Api-Key',
      description: 'The API key, for clients that need Authorization for something else.',
    },
    session: {
      type: 'apiKey',
      in: 'cookie',
      name: SESSION_COOKIE,
      description:
        'The session cookie of a signed-in user (with the prefix `__Host-` if the service uses https). Changes also need the header X-CSRF-Token, with the `csrf_token` of `GET /v1/auth/session`.',
    },
  },
}

/** A route without a response schema responds with 204; the collector reports 200. */
export function readResponses(operation: JsonObject): JsonObject {
  const responses = toObject(operation['responses'])
  const isBare = Object.values(responses).every((response) => toObject(response)['content'] === undefined)
  return isBare ? { 204: {} } : responses
}

/** The error responses that the route itself declares. */
export const describeErrorResponses = (refusals: Json | undefined): JsonObject =>
  Object.fromEntries(
    Object.entries(toObject(refusals)).map(([status, refusal]) => {
      const [code, when] = toArray(refusal).map(String)
      if (code === undefined || when === undefined)
        throw new TypeError('a declared error needs a code and a description')
      return [status, describeErrorResponse(when, new AppError(Number(status), code, when))]
    }),
  )

export const toResponseRef = (name: string): JsonObject => ({ $ref: `#/components/responses/${name}` })

const STATUS_DESCRIPTIONS: Readonly<Record<string, string>> = {
  202: 'Accepted: stored on disk, and processed after this response.',
  204: 'Done; no body.',
}

export interface SuccessOptions {
  /** Names of further headers. */
  readonly headers: readonly string[]
  /** Description of the stream that the route may respond with instead. */
  readonly eventStream: Json | undefined
}

/** The response to a request that succeeded. */
export function finishResponse(status: string, response: Json, { headers, eventStream }: SuccessOptions): JsonObject {
  const { description, content } = toObject(response)
  const words = STATUS_DESCRIPTIONS[status] ?? 'Done.'
  const stream: JsonObject =
    status === '200' && typeof eventStream === 'string'
      ? { [EVENT_STREAM_TYPE]: { schema: { type: 'string', description: eventStream } } }
      : {}
  return {
    description: typeof description === 'string' ? description : words,
    ...listHeaders(['X-Request-Id', ...headers]),
    ...(content === undefined ? {} : { content: { ...keepJsonOnly(content, true), ...stream } }),
  }
}
