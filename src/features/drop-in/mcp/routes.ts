/**
 * @module `POST /mcp`: the Model Context Protocol over stateless HTTP. Serves the protocol's current version and
 * earlier ones, without sessions and streams: each response is one JSON body. A tool calls the routes of /v1 with the
 * key of the request, so that scopes, limits, fairness and the audit log are those of the routes.
 */
import { Elysia } from 'elysia'
import { API, type Api } from '#client/api.ts'
import { createClient } from '#client/client.ts'
import { authenticated } from '#features/core/app/http.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { anyKey } from '#platform/http/access.ts'
import { readApiKey } from '#platform/http/authenticate.ts'
import { acceptsBody } from '#platform/http/body.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import { toErrorResponseData } from '#platform/http/error-response.ts'
import { createInternalRequest } from '#platform/http/internal-request.ts'
import { clientIpOf, requestContext, yieldFairly } from '#platform/http/request-context.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import type { Tool } from './tool.ts'
import { TOOLS } from './tools.ts'

export const MCP_PATH = '/mcp'
/** Code of errors of this server, in the range that JSON-RPC leaves to implementations. */
const SERVER_ERROR_CODE = -32_000
const INVALID_PARAMS_CODE = -32_602

/** Errors before a tool is called have the form of JSON-RPC; `data` is the error body of /v1. */
export const mcpDialect: Dialect = {
  name: 'mcp',
  speaks: (path) => path === MCP_PATH || path === `${MCP_PATH}/`,
  readApiKey,
  toErrorResponse(error, requestId) {
    const { status, headers, body } = toErrorResponseData(error, requestId)
    return {
      status,
      headers,
      body: errorMessage(null, SERVER_ERROR_CODE, [error.message, error.advice ?? []].flat().join('. '), body),
    }
  },
}

/** Names in errors where a client learns how to get a token (RFC 9728 §5.1). @param url undefined: there is no way */
export const namingMetadata = (dialect: Dialect, url: string | undefined): Dialect => ({
  ...dialect,
  toErrorResponse(...error) {
    const { headers, ...rest } = dialect.toErrorResponse(...error)
    const [, challenge] = /^Bearer ?(.*)$/.exec((url && headers['www-authenticate']) || '') ?? []
    if (challenge === undefined) return { ...rest, headers }
    const named = `Bearer resource_metadata="${url}"${challenge && ', '}${challenge}`
    return { ...rest, headers: { ...headers, 'www-authenticate': named } }
  },
})

export interface McpRouteOptions {
  readonly version: string
  /**
   * Serves a request to /v1 inside this process.
   * @param clientIp address of the caller, for the audit log and limits
   */
  readonly fetch: (request: Request, clientIp: () => string) => Promise<Response>
}

export const mcpRoutes = ({ version, fetch }: McpRouteOptions) =>
  new Elysia().use(authenticated).post(
    MCP_PATH,
    async ({ actor, body, request }) => {
      const message = requireOneMessage(body)
      const findMissing = ({ scopes }: Tool) => scopes.find((scope) => !hasScope(actor.scopes, scope))
      const called = message.method === 'tools/call' && TOOLS.find(({ name }) => name === message.params?.name)
      const missing = called && findMissing(called)
      const context = requestContext(request)
      if (missing) {
        const problem = `This API key lacks the scope ${missing}, which ${called.name} needs; use a key that has it, or connect again and allow it.`
        if (context) context.error = new AppError(403, 'insufficient_scope', problem)
        return errorMessage(message.id ?? null, INVALID_PARAMS_CODE, problem)
      }
      await yieldFairly(request)
      // Loaded with the first request: the protocol's package takes 13 MB, which most services never need.
      const { serveMcp } = await import('./server.ts')
      const tools = TOOLS.filter((tool) => findMissing(tool) === undefined)
      let hasRequested = false
      const api = createApi((...inner) => {
        hasRequested = true
        return fetch(...inner)
      }, request)
      const response = await serveMcp(request, message, { version, tools, api })
      // The log has the requests that a tool makes, and so this one only when the tool refused its input. A message
      // without an id calls nothing, and has a response without a body.
      const hasJson = response.headers.get('content-type')?.startsWith('application/json')
      if (called && !hasRequested && context && hasJson) {
        const { result } = (await response.clone().json()) as { result?: { content?: readonly { text?: string }[] } }
        context.error = new AppError(422, 'validation_failed', result?.content?.[0]?.text ?? 'The tool was not called.')
      }
      return response
    },
    { detail: { hide: true, ...anyKey, ...acceptsBody('small-json') } },
  )

interface Message extends JsonObject {
  readonly id?: string | number
  readonly method?: string
  readonly params?: { readonly name?: unknown }
}

const errorMessage = (id: string | number | null, code: number, message: string, data?: object) => ({
  jsonrpc: '2.0',
  id,
  error: { code, message, ...(data && { data }) },
})

/** A batch would run any number of tools in one request; the protocol has dropped batches. */
function requireOneMessage(body: unknown): Message {
  if (isJsonObject(body)) return body
  throw new AppError(
    400,
    'invalid_request',
    'The body must be one JSON-RPC message; send several requests, not a batch.',
  )
}

/** Headers of the caller that a call of a tool repeats: those that identify it and its client. */
const REPEATED_HEADERS = ['authorization', 'x-service-api-key', 'x-request-id', 'user-agent']

/** A client of /v1 for the caller of `request`, until that request ends. */
function createApi(fetch: McpRouteOptions['fetch'], request: Request): Api {
  const { headers, signal } = request
  return createClient<Api>(API, {
    url: 'http://localhost',
    headers: Object.fromEntries([...headers].filter(([name]) => REPEATED_HEADERS.includes(name))),
    retries: 0,
    timeoutMs: 0,
    fetch: async (url, init) => fetch(await createInternalRequest(url, { ...init, signal }), () => clientIpOf(request)),
  })
}
