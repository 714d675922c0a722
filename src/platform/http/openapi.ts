/**
 * @module The API description in OpenAPI 3.1, generated from the schemas that validate requests. @elysiajs/swagger
 * collects the operations; this module adds what they share, and turns our own keywords (`x-integer`, `x-missing`,
 * `x-also-called`, `errorMessage`) into standard ones.
 */
import { swagger } from '@elysiajs/swagger'
import { type AnyElysia, Elysia } from 'elysia'
import { AppError, tooManyRequests, unauthorized } from '../errors.ts'
import { CHANGES, OPERATORS_ONLY, OWNERS_ONLY, parseScopes, REQUIRED_SCOPE, SESSION_ONLY } from './access.ts'
import { BODY_FORMAT } from './body.ts'
import { CSV_TYPE } from './csv.ts'
import { insufficientScope, toErrorResponseData } from './error-response.ts'
import { EVENT_STREAM, EVENT_STREAM_TYPE } from './event-stream.ts'
import { ERROR_RESPONSES } from './route-errors.ts'
import { isOwnApiPath } from './route-table.ts'
import { notFoundById } from './schemas.ts'
import { SESSION_COOKIE } from './session.ts'
import { invalidFields } from './validation.ts'

export interface ApiInfo {
  readonly title: string
  readonly version: string
  readonly description: string
  /** Descriptions of the tags, by name. */
  readonly tags?: Readonly<Record<string, string>>
}

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
type JsonObject = { [name: string]: Json }

const ERROR_SCHEMA: JsonObject = {
  type: 'object',
  description: 'The body of every error. The fields of `error` are repeated at the top level.',
  required: ['error', 'code', 'message', 'type', 'request_id'],
  properties: {
    error: {
      type: 'object',
      description: 'The same error, for clients that expect it in `error`.',
      required: ['code', 'message', 'type', 'docs_url'],
      properties: {
        code: { type: 'string', description: 'The same as `code` below.' },
        message: { type: 'string', description: 'The same as `message` below.' },
        type: { type: 'string', description: 'The same as `type` below.' },
        docs_url: { type: ['string', 'null'], description: 'Always null.' },
      },
    },
    code: { type: 'string', description: 'Stable name of the error.', examples: ['validation_failed'] },
    message: { type: 'string', description: 'One sentence that says how to fix it.' },
    type: {
      type: 'string',
      description: 'Kind of the error.',
      enum: [
        'validation_error',
        'authentication_error',
        'permission_error',
        'not_found',
        'conflict',
        'rate_limit_exceeded',
        'invalid_request',
        'timeout',
        'server_error',
      ],
    },
    request_id: { type: 'string', description: 'The same as in the header X-Request-Id.' },
    details: {
      type: 'array',
      description: 'The invalid fields.',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: {
          field: { type: 'string', description: 'Path of the field.', examples: ['attachments.0.filename'] },
          message: { type: 'string', description: 'What is wrong with it.' },
        },
      },
    },
    retry_after: { type: 'integer', description: 'Seconds to wait; the same as in the header Retry-After.' },
  },
}

/** @param example an error that the service returns in this case */
const describeErrorResponse = (description: string, example: AppError): JsonObject => ({
  description,
  content: {
    'application/json': {
      schema: { $ref: '#/components/schemas/Error' },
      example: JSON.parse(JSON.stringify(toErrorResponseData(example, EXAMPLE_ID).body)) as Json,
    },
  },
})

const EXAMPLE_ID = '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24'

const COMPONENTS: JsonObject = {
  schemas: { Error: ERROR_SCHEMA },
  responses: {
    Error: describeErrorResponse(
      'Any other error.',
      tooManyRequests('rate_limited', 'Too many requests; wait before the next one.', 1),
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

const SPEC_PATH = '/openapi.json'

/** Describes the routes under /v1, as JSON text. */
export async function describeApi(
  routes: readonly AnyElysia[],
  { title, version, description, tags: tagWords = {} }: ApiInfo,
): Promise<string> {
  const collector = new Elysia().use(swagger({ path: '/unused', specPath: SPEC_PATH, excludeStaticFile: false }))
  for (const plugin of routes) collector.use(plugin)
  const response = await collector.handle(new Request(`http://localhost${SPEC_PATH}`))
  const collected = (await response.json()) as { paths: Record<string, Record<string, JsonObject>> }
  const paths: JsonObject = {}
  const tags = new Set<string>()
  for (const [path, methods] of Object.entries(collected.paths)) {
    if (!isOwnApiPath(path)) continue
    const operations: JsonObject = {}
    for (const [method, operation] of Object.entries(methods)) {
      operations[method] = finishOperation(path, operation)
      for (const tag of toArray(operation['tags'])) if (typeof tag === 'string') tags.add(tag)
    }
    paths[path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path] = operations
  }
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title, version, description },
    servers: [{ url: '/' }],
    tags: [...tags].map((name) => ({ name, ...(tagWords[name] && { description: tagWords[name] }) })),
    paths,
    components: COMPONENTS,
  })
}

/**
 * Completes an operation: states its scope in words, leaves JSON as the only content type except for streams and files,
 * and adds its errors.
 */
function finishOperation(path: string, operation: JsonObject): JsonObject {
  const scope = operation[REQUIRED_SCOPE]
  const {
    [EVENT_STREAM]: eventStream,
    [BODY_FORMAT]: _,
    [ERROR_RESPONSES]: refusals,
    [SESSION_ONLY]: isSessionOnly,
    [OWNERS_ONLY]: isOwnersOnly,
    [OPERATORS_ONLY]: isOperatorsOnly,
    [CHANGES]: __,
    ...rest
  } = operation
  const parameters = toArray(operation['parameters']).map(finishParameter)
  const body = toObject(operation['requestBody'])
  const responses = readResponses(operation)
  const isPublic = toArray(operation['security']).length === 0
  const description = [
    operation['description'],
    typeof scope === 'string' && scope !== '' ? describeScopes(parseScopes(scope)) : undefined,
    isOperatorsOnly === true
      ? 'For operators of the service who signed in with their authenticator app, not for API keys.'
      : isSessionOnly === true
        ? 'For signed-in users, not for API keys.'
        : undefined,
    isOwnersOnly === true ? 'A signed-in user must be an owner.' : undefined,
  ]
  return {
    ...rest,
    description: description.filter((text) => typeof text === 'string').join('\n\n'),
    parameters,
    ...(body['content'] === undefined
      ? {}
      : { requestBody: { required: true, content: keepJsonOnly(body['content']) } satisfies JsonObject }),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, r]) => [status, finishResponse(status, r, eventStream)]),
      ),
      ...(isPublic ? {} : { 401: toResponseRef('Unauthorized') }),
      ...(typeof scope === 'string' && (scope !== '' || isSessionOnly) ? { 403: toResponseRef('Forbidden') } : {}),
      ...(path.includes('{') ? { 404: toResponseRef('NotFound') } : {}),
      ...(parameters.length > 0 || body['content'] !== undefined ? { 422: toResponseRef('Invalid') } : {}),
      ...describeErrorResponses(refusals),
      default: toResponseRef('Error'),
    },
  }
}

const describeScopes = (scopes: readonly string[]): string =>
  `Needs the scope${scopes.length === 1 ? '' : 's'} ${scopes.map((scope) => `\`${scope}\``).join(' and ')}.`

/** A route without a response schema responds with 204; the collector reports 200. */
function readResponses(operation: JsonObject): JsonObject {
  const responses = toObject(operation['responses'])
  const isBare = Object.values(responses).every((response) => toObject(response)['content'] === undefined)
  return isBare ? { 204: {} } : responses
}

/** The error responses that the route itself declares. */
const describeErrorResponses = (refusals: Json | undefined): JsonObject =>
  Object.fromEntries(
    Object.entries(toObject(refusals)).map(([status, refusal]) => {
      const [code, when] = toArray(refusal).map(String)
      if (code === undefined || when === undefined)
        throw new TypeError('a declared error needs a code and a description')
      return [status, describeErrorResponse(when, new AppError(Number(status), code, when))]
    }),
  )

const toResponseRef = (name: string): JsonObject => ({ $ref: `#/components/responses/${name}` })

const STATUS_DESCRIPTIONS: Readonly<Record<string, string>> = {
  202: 'Accepted: stored on disk, and processed after this response.',
  204: 'Done; no body.',
}

/** @param eventStream description of the stream that the route may respond with instead */
function finishResponse(status: string, response: Json, eventStream: Json | undefined): JsonObject {
  const { description, content } = toObject(response)
  const words = STATUS_DESCRIPTIONS[status] ?? 'Done.'
  const stream: JsonObject =
    status === '200' && typeof eventStream === 'string'
      ? { [EVENT_STREAM_TYPE]: { schema: { type: 'string', description: eventStream } } }
      : {}
  return {
    description: typeof description === 'string' ? description : words,
    ...(content === undefined ? {} : { content: { ...keepJsonOnly(content), ...stream } }),
  }
}

/**
 * Removes content types that are not accepted: the collector repeats every schema for each of them. CSV and files stay
 * as they are.
 */
function keepJsonOnly(content: Json): JsonObject {
  const { [CSV_TYPE]: csv, 'application/json': json } = toObject(content)
  if (csv !== undefined) return { [CSV_TYPE]: csv }
  if (json === undefined) return toObject(content)
  const { schema } = toObject(json)
  return { 'application/json': schema === undefined ? {} : { schema: toStandardSchema(schema) } }
}

function finishParameter(parameter: Json): JsonObject {
  const { schema, ...rest } = toObject(parameter)
  const { description, anyOf, ...standard } = toObject(toStandardSchema(schema ?? {}))
  // A path parameter is always text in the description; null in a schema is only what handlers get for a broken
  // encoding.
  const variants = toArray(anyOf).filter((variant) => rest['in'] !== 'path' || toObject(variant)['type'] !== 'null')
  const [only] = variants
  if (variants.length === 1) Object.assign(standard, only)
  else if (variants.length > 1) standard['anyOf'] = variants
  return { ...rest, ...(description === undefined ? {} : { description }), schema: standard }
}

/** Replaces our own keywords by those of JSON Schema, recursively. */
function toStandardSchema(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(toStandardSchema)
  if (typeof schema !== 'object' || schema === null) return schema
  const {
    errorMessage: _,
    'x-missing': __,
    'x-also-called': ___,
    'x-format': format,
    'x-integer': integer,
    ...rest
  } = schema as JsonObject
  if (integer !== undefined) return { type: 'integer', ...toObject(integer) }
  const { anyOf, patternProperties, ...others } = rest
  const result: JsonObject = {}
  for (const [name, value] of Object.entries(others)) {
    // Examples, defaults and constants are values, not schemas.
    result[name] = VALUE_KEYWORDS.has(name) ? value : toStandardSchema(value)
  }
  if (format !== undefined) result['format'] = format
  if (patternProperties !== undefined) {
    result['additionalProperties'] = toStandardSchema(Object.values(toObject(patternProperties))[0] ?? true)
  }
  return anyOf === undefined ? result : { ...result, ...toStandardUnion(toArray(anyOf)) }
}

const VALUE_KEYWORDS = new Set(['const', 'default', 'enum', 'example', 'examples', 'required'])

function toStandardUnion(variants: readonly Json[]): JsonObject {
  // Only PHP clients send an empty array in place of an empty map, so the description leaves that alternative out.
  const recommended = variants.filter((variant) => toObject(variant)['maxItems'] !== 0)
  const constants = recommended.filter((variant) => typeof toObject(variant)['const'] === 'string')
  if (constants.length > 1 && constants.length === recommended.length) {
    return { type: 'string', enum: constants.map((variant) => toObject(variant)['const'] ?? null) }
  }
  const [only] = recommended
  return recommended.length === 1 && only !== undefined
    ? toObject(toStandardSchema(only))
    : { anyOf: recommended.map(toStandardSchema) }
}

const toObject = (value: Json | undefined): JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}

const toArray = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? value : [])
