/**
 * @module Everything that happens to a request before and after its handler. First come API key and body size; once the
 * route is known, its scope, its body and the checks that it declares. Browsers may use a session instead of a key; a
 * key takes precedence. Since a body may arrive slowly, access is checked again once the body is complete.
 */
import { type AnyElysia, Elysia, ElysiaCustomStatusResponse } from 'elysia'
import { AppError, unauthorized } from '../errors.ts'
import { isJsonObject } from '../json-object.ts'
import type { Owner } from '../queue/fair-queue.ts'
import type { FairScheduler } from '../queue/fair-scheduler.ts'
import { hasCredentials, readApiKey, unknownKey } from './authenticate.ts'
import { type BodyReader, type FairRunner, isLargeBody } from './body.ts'
import { summariseBody } from './body-summary.ts'
import type { Dialect, DialectErrorResponse } from './dialect.ts'
import {
  insufficientScope,
  optionsResponse,
  toAppError,
  toErrorResponseData,
  unknownRoute,
  wrongMethod,
} from './error-response.ts'
import { type RequestKeys, toReplayResponse } from './repeated-request.ts'
import { type RequestContext, requestContext } from './request-context.ts'
import { createRouteTable, isOwnApiPath, type RouteRules, type RouteTable, removeTrailingSlash } from './route-table.ts'
import type { SessionGate } from './session.ts'
import { invalidFields } from './validation.ts'

export interface HttpLog {
  info(context: object, message: string): void
  warn(context: object, message: string): void
  error(context: object, message: string): void
}

export interface PipelineOptions<Actor> {
  readonly config: {
    /** Origins whose pages may call the API with a key, such as https://example.com. Default: none. */
    readonly corsOrigins?: readonly string[]
  }
  readonly log: HttpLog
  /** The actor of an API key; undefined when the key is unknown. @param via the dialect of the client; default: our own */
  readonly authenticate: (
    key: string,
    clientIp: () => string,
    via: string | undefined,
  ) => Actor | undefined | Promise<Actor | undefined>
  readonly hasScope: (actor: Actor, scope: string) => boolean
  /** Throws when the actor may not call a route for another reason than its scopes. Default: never. */
  readonly requireRoute?: (actor: Actor, called: CalledRoute) => void
  /** Default: the work that requests cause is not limited. */
  readonly fairness?: Fairness<Actor>
  /** Default: routes that create something ignore idempotency keys. */
  readonly requestKeys?: RequestKeys<Actor>
  /** Default: no sessions, only keys. */
  readonly sessions?: SessionGate<Actor>
  /** Other providers' interfaces among the routes. */
  readonly dialects?: readonly Dialect<Actor>[]
  /** The features' routes and pages, in any order. */
  readonly routes: readonly AnyElysia[]
}

/** Limits the work that one account's requests may cause. */
export interface Fairness<Actor> {
  /** Runs the work of large bodies and lists in turns, so that accounts get equal shares of the event loop. */
  readonly turns: Pick<FairScheduler, 'run' | 'resume' | 'waitForTurn'>
  /** The owner under which an actor's work is queued. */
  readonly ownerOf: (actor: Actor) => Owner
  /** Takes units of work from the actor's budget; throws a 429 when it is used up. */
  readonly spendWork: (actor: Actor, units: number) => void
  /** Takes units for work that is already done; a deficit counts at the next request. */
  readonly chargeWork: (actor: Actor, units: number) => void
}

/** A route, as Elysia's pattern, with what the path has for its parameters. */
export type CalledRoute = Pick<RoutedRequest, 'route' | 'params'> & { readonly method: string }

/** The parts of a routed request, as parsed by Elysia. */
interface RoutedRequest {
  readonly request: Request
  readonly route: string
  readonly params: Record<string, string | null | undefined>
  readonly query: Record<string, string | undefined>
}

/** Ids in the response of a route that creates or starts something; `MessageID` is Postmark's. */
interface CreatedIds {
  readonly id?: unknown
  readonly operation_id?: unknown
  readonly MessageID?: unknown
}

/** The methods are in the order in which they run. */
export class RequestPipeline<Actor> {
  readonly #options: PipelineOptions<Actor>
  readonly #bodies: BodyReader
  /** Filled once all routes are registered; no request can come earlier. */
  #table: RouteTable = createRouteTable([])

  constructor(options: PipelineOptions<Actor>, bodies: BodyReader) {
    this.#options = options
    this.#bodies = bodies
  }

  /** Composes all routes with this pipeline around them. */
  compose(): AnyElysia {
    const app = new Elysia({
      // Unknown fields of a request are refused, not dropped; responses are filtered below.
      normalize: false,
      systemRouter: false,
      handler: { standardHostname: false },
      allowUnsafeValidationDetails: true,
    })
      // Keeps Elysia from reading bodies: `transform` reads them within its limits. The type of `on` lacks this
      // documented value.
      .on({ as: 'global' }, 'parse', [{ fn: 'none' }] as never)
      .onRequest(async ({ request, set }) => this.#begin(request, set.headers))
      .onTransform({ as: 'global' }, async (elysia) => {
        // Takes only single properties from the context: if the hook passed on the whole context, Elysia would have to
        // prepare all of it.
        const { request, route, params, query } = elysia
        const read = await this.#receive({ request, route, params, query })
        if (read) elysia.body = read.body
      })
      .onBeforeHandle({ as: 'global' }, ({ request }) => {
        const repeat = requestContext(request)?.repeat
        return repeat?.kind === 'stored' ? toReplayResponse(repeat) : undefined
      })
      .onAfterHandle({ as: 'global' }, ({ request, route, path, responseValue, set }) => {
        const location = this.#locateCreated(request.method, route, path, responseValue)
        if (location !== undefined) set.headers['location'] = location
        // As the description of a route without a response schema says.
        if (responseValue === undefined && this.#table.isApiPath(path)) set.status = 204
        return this.#finish(request, route, responseValue, set.status)
      })
      .onError({ as: 'global' }, ({ error: thrown, request, path, set }) => {
        const { status, headers, body } = this.#fail(thrown, request, path)
        set.status = status
        Object.assign(set.headers, headers)
        // Elysia replaces the 200 of an error.
        return status < 300 ? Response.json(body) : body
      })
    for (const plugin of this.#options.routes) app.use(plugin)
    this.#table = createRouteTable(app.routes, (path) => findDialect(this.#options, { path }) !== undefined)
    return app
  }

  /** Runs before routing. Returns the response to OPTIONS; undefined: the request continues. */
  async #begin(request: Request, headers: Record<string, string | number>): Promise<Response | undefined> {
    const context = requestContext(request)
    if (!context) throw new Error('request without context: it did not come through the server')
    const { path } = context
    headers['x-request-id'] = context.requestId
    headers['x-content-type-options'] = 'nosniff'
    if (this.#table.isApiPath(path)) headers['cache-control'] = 'no-store'
    const { corsOrigins = [] } = this.#options.config
    // The methods of a path are public in the API description.
    if (request.method === 'OPTIONS' && this.#table.isApiPath(path)) {
      const methods = this.#table.methodsAt(path)
      return optionsResponse(methods, context.requestId, crossOriginHeaders(corsOrigins, request, methods))
    }
    if (this.#table.isApiPath(path)) Object.assign(headers, crossOriginHeaders(corsOrigins, request, []))
    const isPublic = this.#table.isPublic(request.method, path)
    if (!isPublic) {
      const { sessions } = this.#options
      context.isSession =
        context.knownActor === undefined &&
        sessions !== undefined &&
        !hasCredentials(request.headers) &&
        !findDialect(this.#options, context)
      const found = authenticateRequest(this.#options, request, context)
      // Awaited only if it is a promise: an `await` would otherwise cost every request a tick.
      const actor = found instanceof Promise ? await found : found
      if (actor === undefined) throw context.isSession ? unauthorized() : unknownKey(this.#readKey(request, context))
      if (context.isSession && !isReadMethod(request.method)) sessions?.requireOwnPage(request, actor)
      context.actor = actor
    }
    this.#bodies.refuseTooLarge(request, isPublic || context.isGuest ? 'stranger' : 'authenticated', () =>
      this.#table.takesStream(request.method, path),
    )
    return undefined
  }

  /** Checks a request by its route's rules, and reads its body if its method allows one. */
  async #receive({ request, route, params, query }: RoutedRequest): Promise<{ readonly body: unknown } | undefined> {
    const context = requestContext(request)
    const rules = this.#table.rulesOf(request.method, route)
    if (!context || !rules) throw new Error(`no rules for ${request.method} ${route}`)
    if (rules.requiredScopes !== undefined) {
      this.#requireAllowed(request, context, rules)
      this.#options.requireRoute?.(context.actor as Actor, { method: request.method, route, params })
    }
    fillUndecodedParams(params)
    throwIfInvalid(rules.checkParams?.(params))
    throwIfInvalid(rules.checkQuery(query, request.url))
    const fairness = this.#fairnessFor(context)
    const actor = context.actor as Actor | undefined
    // A repeated request must get its stored response even when the budget is used up. So a small one that may have an
    // idempotency key, also in its body, is not refused here; if it turns out to be new, its handler refuses it. No
    // other body is read then: a repeated large request is answered once the budget allows it.
    if (fairness && actor !== undefined) {
      if (rules.takesIdempotencyKey && isSmallBody(request)) fairness.chargeWork(actor, 1)
      else fairness.spendWork(actor, 1)
    }
    const owner = fairness && actor !== undefined ? fairness.ownerOf(actor) : undefined
    if (fairness && owner !== undefined) context.yieldFairly = () => fairness.turns.waitForTurn(owner, { isNew: false })
    if (!isReadMethod(request.method)) {
      const body = await this.#readBody(request, context, rules, owner)
      await this.#beginRepeatable(request, context, rules, body)
      return { body }
    }
    if (owner !== undefined && rules.isList) await fairness?.turns.waitForTurn(owner)
    return undefined
  }

  /** Stores that a request with an idempotency key has begun, or finds the response of the first one. */
  async #beginRepeatable(request: Request, context: RequestContext, rules: RouteRules, body: unknown): Promise<void> {
    const key = rules.isRepeatable ? request.headers.get('idempotency-key') : null
    const { requestKeys } = this.#options
    if (key === null || !requestKeys) return
    context.repeat = await requestKeys.begin(context.actor as Actor, { key, path: context.path, body })
  }

  /** Undefined when requests are not scheduled by actor; what the operator does at the machine costs no account. */
  #fairnessFor({ knownActor }: RequestContext): Fairness<Actor> | undefined {
    return knownActor === undefined ? this.#options.fairness : undefined
  }

  #readKey(request: Request, context: RequestContext): string {
    return (findDialect(this.#options, context)?.readApiKey ?? readApiKey)(request.headers)
  }

  #requireAllowed(request: Request, context: RequestContext, rules: RouteRules): void {
    if (context.actor === undefined) throw unauthorized()
    const actor = context.actor as Actor
    if (context.isSession && rules.isMutation && isReadMethod(request.method))
      this.#options.sessions?.requireOwnPage(request, actor)
    requireAccess(this.#options, rules, actor, context)
  }

  async #readBody(
    request: Request,
    context: RequestContext,
    rules: RouteRules,
    owner: Owner | undefined,
  ): Promise<unknown> {
    const fairness = this.#fairnessFor(context)
    const sender = rules.requiredScopes === undefined || context.isGuest ? 'stranger' : 'authenticated'
    const runFairly: FairRunner | undefined =
      fairness && owner !== undefined ? createFairRunner(fairness.turns, owner) : undefined
    const charged = context.actor as Actor | undefined
    const { value, sizeBytes, reservation } = await this.#bodies.read(request, sender, rules.bodyFormat, {
      runFairly,
      isFreeForm: rules.isFreeForm,
      chargeWork: charged && ((units) => fairness?.chargeWork(charged, units)),
    })
    context.reservation = reservation
    if (rules.requiredScopes !== undefined) {
      // While the body arrived, the key may have been deleted, the user removed, or the user's role changed.
      const found = authenticateRequest(this.#options, request, context)
      const actor = found instanceof Promise ? await found : found
      if (actor === undefined) throw unauthorized()
      requireAccess(this.#options, rules, actor, context)
      context.actor = actor
    }
    const body = rules.isBodyObject && isEmptyBody(value) ? {} : value
    context.body = body
    const check = () => rules.checkBody?.(body)
    throwIfInvalid(runFairly && isLargeBody(sizeBytes) ? await runFairly(check) : check())
    return body
  }

  /**
   * Charges for the rows of a response, and filters the response by its schema. Returns undefined when the response is
   * sent unchanged.
   */
  #finish(request: Request, route: string, responseValue: unknown, status: unknown): unknown {
    const context = requestContext(request)
    context?.reservation?.release()
    if (context) context.body = undefined
    if (context?.actor !== undefined)
      this.#fairnessFor(context)?.chargeWork(context.actor as Actor, countRows(responseValue))
    const content = responseValue instanceof ElysiaCustomStatusResponse ? responseValue.response : responseValue
    if (context) {
      context.hasRows = countRows(content) > 0
      if (request.method === 'POST') context.createdId = findCreatedId(content)
    }
    const rules = this.#table.rulesOf(request.method, route)
    const cutters = rules?.fieldFilters
    if (!cutters || cutters.size === 0 || responseValue instanceof Response) return undefined
    if (context?.isStrict) {
      const code = responseValue instanceof ElysiaCustomStatusResponse ? responseValue.code : status
      context.strictFilter = rules.strictFilters().get(typeof code === 'number' ? code : 200)
    }
    if (responseValue instanceof ElysiaCustomStatusResponse) {
      const cut = cutters.get(responseValue.code as number)
      if (cut) responseValue.response = cut(responseValue.response) as typeof responseValue.response
      return undefined
    }
    return cutters.get(typeof status === 'number' ? status : 200)?.(responseValue)
  }

  /** The path of what a route of /v1 created or started (RFC 9110 §10.2.2). */
  #locateCreated(method: string, route: string, path: string, responseValue: unknown): string | undefined {
    if (!(responseValue instanceof ElysiaCustomStatusResponse) || !isOwnApiPath(route)) return undefined
    if (responseValue.code !== 201 && responseValue.code !== 202) return undefined
    const body = responseValue.response as { data?: CreatedIds } & CreatedIds
    const operationId = body?.operation_id ?? body?.data?.operation_id
    if (typeof operationId === 'string') return `/v1/operations/${operationId}`
    const isReadable = this.#table.rulesOf('GET', `${removeTrailingSlash(route)}/:id`) !== undefined
    const parent = this.#table.rulesOf(method, route)?.locatedAt ?? (isReadable ? removeTrailingSlash(path) : undefined)
    return parent !== undefined && typeof body?.data?.id === 'string' ? `${parent}/${body.data.id}` : undefined
  }

  #fail(thrown: unknown, request: Request, path: string): DialectErrorResponse {
    const context = requestContext(request)
    context?.reservation?.release()
    const requestId = context?.requestId ?? ''
    const { error, isLogged } = toAppError(thrown, () => {
      const allowed = this.#table.methodsAt(path)
      return allowed.length > 0 ? wrongMethod(request.method, allowed) : unknownRoute(this.#table.findNearest(path))
    })
    if (isLogged)
      this.#options.log.error({ err: error.cause, requestId, method: request.method, path }, 'request failed')
    if (context) {
      context.error = error
      if (context.actor !== undefined) context.bodySummary = summariseBody(context.body)
      context.body = undefined
    }
    const dialect = findDialect(this.#options, { path })
    return dialect ? dialect.toErrorResponse(error, requestId, path) : toErrorResponseData(error, requestId)
  }
}

/**
 * Runs the pieces of work for one body. Only the first piece may be refused for overload: refusing a later one would
 * leave the work half done.
 */
function createFairRunner(turns: Fairness<unknown>['turns'], owner: Owner): FairRunner {
  let isBegun = false
  return (piece) => {
    if (isBegun) return turns.resume(owner, piece)
    isBegun = true
    return turns.run(owner, piece)
  }
}

/** The id of what a response says was created; of several, that of the first. */
function findCreatedId(content: unknown): string | undefined {
  const body = isJsonObject(content) && 'data' in content ? content['data'] : content
  const [first] = Array.isArray(body) ? body : [body]
  const { id, MessageID } = (first ?? {}) as CreatedIds
  return [id, MessageID].find((value) => typeof value === 'string')
}

const countRows = (value: unknown): number =>
  typeof value === 'object' && value !== null && 'data' in value && Array.isArray(value.data) ? value.data.length : 0

/** The current actor of a request. */
const authenticateRequest = <Actor>(
  options: PipelineOptions<Actor>,
  request: Request,
  context: RequestContext,
): Actor | undefined | Promise<Actor | undefined> => {
  const { clientIp, knownActor } = context
  if (knownActor !== undefined) return knownActor as Actor
  if (context.isSession) return options.sessions?.actorOf(request, clientIp)
  const dialect = findDialect(options, context)
  const guest = dialect?.guestOf?.(request.headers)
  context.isGuest = guest !== undefined
  return (
    guest ??
    options.authenticate((dialect?.readApiKey ?? readApiKey)(request.headers), clientIp, context.via ?? dialect?.name)
  )
}

const findDialect = <Actor>(
  { dialects = [] }: Pick<PipelineOptions<Actor>, 'dialects'>,
  { path }: Pick<RequestContext, 'path'>,
): Dialect<Actor> | undefined => dialects.find(({ speaks }) => speaks(path))

/** Whether the length of a request's body is known and small. */
const isSmallBody = ({ headers }: Request): boolean =>
  !headers.has('transfer-encoding') && !isLargeBody(Number(headers.get('content-length')))

const isReadMethod = (method: string): boolean => method === 'GET' || method === 'HEAD'

/** Throws 403 when the actor may not use the route. */
function requireAccess<Actor>(
  { hasScope, sessions }: PipelineOptions<Actor>,
  { requiredScopes = [], access }: RouteRules,
  actor: Actor,
  { knownActor }: RequestContext,
): void {
  const alternativeScope = access['x-alternative-scope']
  const mayCall = alternativeScope !== undefined && hasScope(actor, alternativeScope)
  for (const scope of mayCall ? [] : requiredScopes)
    if (!hasScope(actor, scope)) throw sessions?.roleRefusal(actor) ?? insufficientScope(scope)
  if (knownActor !== undefined) return
  const refusal =
    (access['x-session-only'] ? sessions?.sessionRefusal(actor) : undefined) ??
    (access['x-owners-only'] ? sessions?.ownerRefusal(actor) : undefined) ??
    (access['x-operators-only'] ? sessions?.operatorRefusal(actor) : undefined)
  if (refusal) throw refusal
  if (access['x-commands-only'])
    throw new AppError(403, 'command_required', 'Only a command on the server may do this; `tassis --help` lists them.')
}

function throwIfInvalid(details: Parameters<typeof invalidFields>[0] | undefined): void {
  if (details && details.length > 0) throw invalidFields(details)
}

/**
 * Elysia passes null for a path segment that is not UTF-8, despite its types. Replaces null by an empty text, which
 * matches nothing, because no segment is empty.
 */
function fillUndecodedParams(params: Record<string, string | null | undefined>): void {
  for (const name in params) if (params[name] === null) params[name] = ''
}

/** Bodies that clients send when there is nothing to send: no body, `null`, or `[]` from PHP. */
const isEmptyBody = (value: unknown): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0)

const ALLOWED_HEADERS =
  'authorization, content-type, idempotency-key, if-none-match, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, x-batch-validation, x-confirm-delete, x-postmark-server-token, x-request-id, x-service-api-key, x-tassis-idempotency-key'
const EXPOSED_HEADERS =
  'etag, idempotency-mismatch, idempotency-replayed, location, ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, tassis-ignored, www-authenticate, x-request-id'
/** How long a browser may remember the answer to a preflight. */
const MAX_AGE_SECONDS = 600

/**
 * The headers for a request from another origin (CORS, Fetch §3.2); none if the origin is not listed. Without
 * credentials: the session cookie of a signed-in user never works from another site.
 * @param methods of the path, for a preflight
 */
function crossOriginHeaders(
  origins: readonly string[],
  request: Request,
  methods: readonly string[],
): Record<string, string> {
  const origin = request.headers.get('origin')
  if (origins.length === 0 || origin === null || !origins.includes(origin)) return {}
  const headers = { 'access-control-allow-origin': origin, vary: 'Origin' }
  if (request.method !== 'OPTIONS' || !request.headers.has('access-control-request-method'))
    return { ...headers, 'access-control-expose-headers': EXPOSED_HEADERS }
  return {
    ...headers,
    'access-control-allow-methods': methods.join(', '),
    'access-control-allow-headers': ALLOWED_HEADERS,
    'access-control-max-age': String(MAX_AGE_SECONDS),
  }
}
