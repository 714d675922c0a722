/**
 * @module The API description in OpenAPI 3.1, generated from the schemas that validate requests. @elysiajs/swagger
 * collects the operations; this module adds what they share.
 */
import { swagger } from '@elysiajs/swagger'
import type { TSchema } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import { ERROR_RESPONSES, LOCATED_AT, parseScopes, RESPONSE_HEADERS } from './access.ts'
import { BODY_FORMAT } from './body.ts'
import { EVENT_STREAM } from './event-stream.ts'
import { type NamedOperation, shareSchemas } from './openapi-components.ts'
import { finishParameter, type Json, type JsonObject, keepJsonOnly, toArray, toObject } from './openapi-examples.ts'
import { toOperationId } from './openapi-names.ts'
import {
  COMPONENTS,
  describeErrorResponses,
  finishResponse,
  readResponses,
  toResponseRef,
} from './openapi-responses.ts'
import { REPEAT_PARAMETER } from './repeated-request.ts'
import { isOwnApiPath, isRepeatableCreation, removeTrailingSlash } from './route-table.ts'

interface WebhookDescription {
  /** Unique, such as `delivered`. */
  readonly name: string
  readonly summary: string
  readonly description: string
  readonly tags: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly body: TSchema
}

/** What the response of a receiver does. */
const RESPONSES: JsonObject = {
  '2XX': { description: 'Delivered. The body is not read.' },
  '3XX': { description: 'Not delivered: redirects are not followed. Repeated only in the formats of other providers.' },
  '4XX': { description: 'Not delivered. Repeated only in the formats of other providers.' },
  '5XX': { description: 'Repeated later, as when there is no response within 10 seconds.' },
}

const describeWebhooks = (requests: readonly WebhookDescription[]): NamedOperation[] =>
  requests.map(({ name, summary, description, tags, headers, body }) => ({
    method: 'webhook',
    path: name,
    operation: {
      operationId: `receive-${name}`.replace(/[-._](\w)/g, (_, letter: string) => letter.toUpperCase()),
      summary,
      description,
      tags,
      security: [],
      parameters: Object.entries(headers).map(([header, words]) => ({
        name: header,
        in: 'header',
        required: true,
        description: words,
        schema: { type: 'string' },
      })),
      requestBody: {
        required: true,
        content: keepJsonOnly({ 'application/json': { schema: JSON.parse(JSON.stringify(body)) as Json } }, false),
      },
      responses: RESPONSES,
    },
  }))

export interface ApiInfo {
  readonly title: string
  readonly version: string
  readonly description: string
  /** Further fields of the info object, such as `license`. */
  readonly more?: Readonly<Record<string, { readonly [name: string]: string }>>
  readonly tags?: Readonly<Record<string, string>>
  /** Requests that the service sends to its users. */
  readonly webhooks?: readonly WebhookDescription[]
  /** Routes that are no use to clients with a key: they are described in a document of their own. */
  readonly operators?: {
    readonly title: string
    readonly description: string
    /** Beginnings of their paths. */
    readonly paths: readonly string[]
  }
}

/** Where the collector describes the routes of one plugin; no plugin has it. */
const COLLECTED_PATH = '/collected'

/**
 * Describes routes under /v1, as JSON text.
 * @param isDescribed whether the routes at a path belong to this document
 */
export async function describeApi(
  routes: readonly AnyElysia[],
  { title, version, description, more = {}, tags: tagWords = {}, webhooks: requests = [] }: ApiInfo,
  isDescribed: (path: string) => boolean = () => true,
): Promise<string> {
  const collected: Record<string, Record<string, JsonObject>> = {}
  for (const plugin of routes) {
    for (const [path, methods] of Object.entries(await collectPaths(plugin)))
      collected[path] = { ...collected[path], ...methods }
  }
  const paths: JsonObject = {}
  const webhooks = describeWebhooks(requests)
  const finished = [...webhooks]
  const tags = new Set<string>()
  for (const [path, methods] of Object.entries(collected)) {
    if (!isOwnApiPath(path) || !isDescribed(path)) continue
    const operations: JsonObject = {}
    for (const [method, operation] of Object.entries(methods)) {
      const isReadable = collected[`${removeTrailingSlash(path)}/{id}`]?.['get'] !== undefined
      const done = finishOperation({ method, path, operation, isReadable })
      operations[method] = done
      finished.push({ method, path, operation: done })
      for (const tag of toArray(operation['tags'])) if (typeof tag === 'string') tags.add(tag)
    }
    paths[removeTrailingSlash(path)] = operations
  }
  const components = structuredClone(COMPONENTS)
  shareSchemas(finished, components)
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title, version, description, ...more },
    servers: [{ url: '/' }],
    tags: [...tags].map((name) => ({ name, ...(tagWords[name] && { description: tagWords[name] }) })),
    paths,
    ...(webhooks.length > 0 && {
      webhooks: Object.fromEntries(webhooks.map(({ path, operation }) => [path, { post: operation }])),
    }),
    components,
  })
}

async function collectPaths(plugin: AnyElysia): Promise<Record<string, Record<string, JsonObject>>> {
  const collector = new Elysia().use(swagger({ path: '/unused', specPath: COLLECTED_PATH, excludeStaticFile: false }))
  const response = await collector.use(plugin).handle(new Request(`http://localhost${COLLECTED_PATH}`))
  return ((await response.json()) as { paths: Record<string, Record<string, JsonObject>> }).paths
}

interface CollectedOperation extends NamedOperation {
  /** Whether what the operation creates can be read at its path and its id. */
  readonly isReadable: boolean
}

/**
 * Completes an operation: states its scope in words, leaves JSON as the only content type except for streams and files,
 * and adds its errors.
 */
function finishOperation({ method, path, operation, isReadable }: CollectedOperation): JsonObject {
  const scope = operation['x-required-scope']
  const {
    [EVENT_STREAM]: eventStream,
    [BODY_FORMAT]: bodyFormat,
    [ERROR_RESPONSES]: refusals,
    [RESPONSE_HEADERS]: ownHeaders,
    [LOCATED_AT]: location,
    'x-alternative-scope': alternative,
    'x-session-only': isSessionOnly,
    'x-owners-only': isOwnersOnly,
    'x-operators-only': isOperatorsOnly,
    'x-commands-only': isCommandsOnly,
    'x-changes': _,
    ...rest
  } = operation
  const isRepeatable =
    typeof scope === 'string' &&
    scope !== '' &&
    bodyFormat === undefined &&
    isRepeatableCreation(method, path, {
      detail: { parameters: toArray(operation['parameters']).map(toObject) },
      response: toObject(operation['responses']),
    })
  const parameters = [
    ...toArray(operation['parameters']).map(finishParameter),
    ...(isRepeatable ? [{ ...REPEAT_PARAMETER, schema: { ...REPEAT_PARAMETER.schema } }] : []),
  ]
  const body = toObject(operation['requestBody'])
  const responses = readResponses(operation)
  const isPublic = toArray(operation['security']).length === 0
  const description = [
    operation['description'],
    typeof scope === 'string' && scope !== '' ? describeScopes(parseScopes(scope)) : undefined,
    typeof alternative === 'string' ? `A user with the role ${alternative} may also call it.` : undefined,
    isCommandsOnly === true
      ? 'For the commands of the operator on the server, not for browsers or API keys.'
      : isOperatorsOnly === true
        ? 'For operators of the service who signed in with their authenticator app, not for API keys.'
        : isSessionOnly === true
          ? 'For signed-in users, not for API keys.'
          : undefined,
    isOwnersOnly === true ? 'A signed-in user must be an owner.' : undefined,
  ]
  const own = toArray(ownHeaders).map(String)
  const headersOf = (status: string, response: Json) => [
    ...own,
    ...(isRepeatable && status !== '200' ? ['Idempotency-Replayed'] : []),
    ...(own.includes('Content-Disposition')
      ? []
      : listCommonHeaders(method, status, response, isReadable || location !== undefined)),
  ]
  const takesKey = parameters.some((parameter) => toObject(parameter)['name'] === 'Idempotency-Key')
  return {
    ...rest,
    operationId: toOperationId(method, removeTrailingSlash(path), isListBody(responses['200'])),
    description: description.filter((text) => typeof text === 'string').join('\n\n'),
    parameters,
    ...(body['content'] === undefined
      ? {}
      : { requestBody: { required: true, content: keepJsonOnly(body['content'], false) } satisfies JsonObject }),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, response]) => [
          status,
          finishResponse(status, response, { headers: headersOf(status, response), eventStream }),
        ]),
      ),
      ...(method === 'get' && headersOf('200', responses['200'] ?? {}).includes('ETag')
        ? { 304: toResponseRef('NotModified') }
        : {}),
      ...(body['content'] === undefined ? {} : { 400: toResponseRef('BadRequest') }),
      ...(isPublic ? {} : { 401: toResponseRef('Unauthorized') }),
      ...(typeof scope === 'string' && (scope !== '' || isSessionOnly) ? { 403: toResponseRef('Forbidden') } : {}),
      ...(path.includes('{') ? { 404: toResponseRef('NotFound') } : {}),
      ...(parameters.length > 0 || body['content'] !== undefined ? { 422: toResponseRef('Invalid') } : {}),
      ...(takesKey ? { 409: toResponseRef('Conflict') } : {}),
      429: toResponseRef('TooManyRequests'),
      503: toResponseRef('Unavailable'),
      ...describeErrorResponses(refusals),
      default: toResponseRef('Error'),
    },
  }
}

/** An entity tag of JSON that is sent as a whole; the path of what was created, if it can be read there. */
function listCommonHeaders(method: string, status: string, response: Json, isReadable: boolean): string[] {
  const schema = findJsonSchema(response)
  const { data, operation_id: operationId } = toObject(toObject(schema)['properties'])
  const fields = toObject(toObject(data)['properties'])
  if (method === 'get') return status === '200' && schema !== undefined ? ['ETag'] : []
  const isCreation = status === '201' || status === '202'
  const isLocated = operationId !== undefined || 'operation_id' in fields || (isReadable && 'id' in fields)
  return isCreation && isLocated ? ['Location'] : []
}

/** Whether a response is `{data: […]}`. */
const isListBody = (response: Json | undefined): boolean => {
  const { data } = toObject(toObject(findJsonSchema(response))['properties'])
  return toObject(data)['type'] === 'array'
}

const findJsonSchema = (response: Json | undefined): Json | undefined =>
  toObject(toObject(toObject(response)['content'])['application/json'])['schema']

const describeScopes = (scopes: readonly string[]): string =>
  `Needs the scope${scopes.length === 1 ? '' : 's'} ${scopes.map((scope) => `\`${scope}\``).join(' and ')}.`
