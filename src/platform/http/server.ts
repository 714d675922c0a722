/**
 * @module The HTTP server: its listeners, what each request has before it is routed (id, client, time limits), and what
 * every response gets. Between both is the pipeline. Features are Elysia plugins. Knows nothing of email.
 */
import type { AnyElysia } from 'elysia'
import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import type { Clock } from '#platform/time/clock.ts'
import { type BodyReader, createBodyReader } from './body.ts'
import { createNetworkMatcher, resolveClientIp } from './client-ip.ts'
import { ConnectionGuard } from './connection-guard.ts'
import { internalError, toErrorResponse, unknownRoute } from './error-response.ts'
import { negotiate } from './negotiation.ts'
import { type HttpLog, type PipelineOptions, RequestPipeline } from './pipeline.ts'
import { endNewRequest } from './repeated-request.ts'
import { type RequestContext, setRequestContext } from './request-context.ts'
import type { FieldFilter } from './response-shape.ts'
import { startTlsListener, type TlsCertificates, type TlsListener } from './tls-listener.ts'

export interface HttpServerOptions<Actor> extends PipelineOptions<Actor> {
  readonly config: PipelineOptions<Actor>['config'] & {
    readonly maxBodyBytes: number
    /** The limit for streamed bodies; default: `maxBodyBytes`. */
    readonly maxStreamBytes?: number
    /** Proxies whose X-Forwarded-For is trusted: addresses or networks. */
    readonly trustedProxies: readonly string[]
    /**
     * How long a body may take to arrive, at most 240 seconds. Bun closes the connection 15 seconds later, even if the
     * handler is still running; see `liftTimeLimit`.
     */
    readonly requestTimeoutSeconds: number
    /** Overrides the 15 seconds that Bun waits after `requestTimeoutSeconds`. */
    readonly handlerGraceSeconds?: number
    /** Beginnings of the User-Agent of strict clients. */
    readonly strictClients?: readonly string[]
    /** Whether clients use https. If so, responses tell browsers to use nothing else (RFC 6797). */
    readonly isHttps?: boolean
  }
  readonly clock: Clock
  readonly memory: MemoryBudget
  readonly newRequestId: () => string
  /** Called when the response is ready; must not throw. */
  readonly onResponse?: (response: Response, request: EndedRequest) => void
  /** Decides on requests before anything else does; default: all go to their route. */
  readonly screen?: (request: ScreenedRequest) => Screening | undefined
}

export interface ScreenedRequest {
  readonly url: URL
  /** Whether it came over the TLS listener. */
  readonly isTls: boolean
  /** Whether it comes from a trusted proxy, which may have had TLS. */
  readonly isProxied: boolean
}

/** Answers a request in place of its route. */
export type Screening = { readonly redirectTo: string } | { readonly notFound: true }

/** For whom the service makes a request to itself. */
export interface InternalCaller {
  readonly clientIp?: () => string
  readonly actor?: unknown
  /** The interface whose client causes the request. */
  readonly via?: string
}

/** A request whose response is ready. */
export interface EndedRequest extends RequestContext {
  readonly method: string
  readonly headers: Headers
  readonly durationMs: number
}

/**
 * Extra time after the time limit of the body, so that our own error is sent before Bun closes the connection, and
 * handlers have time after a slow body.
 */
const HANDLER_GRACE_SECONDS = 15
/** Bun stores `idleTimeout` in a byte. */
const MAX_IDLE_SECONDS = 255
/** Stands for a missing User-Agent among `strictClients`. */
const NO_USER_AGENT = '-'
/** Makes browsers use only https for a year. This does not include subdomains, which may be other services. */
const STRICT_TRANSPORT = 'max-age=31536000'
const DEFAULT_STOP_GRACE_MS = 10_000
/** A client's own id, with which its log and ours can be matched. */
const VALID_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** Everything between a socket and the handlers. `listen` opens it, `stop` closes it. */
export class BunHttpServer<Actor> {
  readonly #options: HttpServerOptions<Actor>
  readonly #idleSeconds: number
  readonly #isTrustedProxy: (address: string) => boolean
  readonly #app: AnyElysia
  readonly #bodies: BodyReader
  #servers: Bun.Server<undefined>[] = []
  #tls: TlsListener | undefined
  readonly #guard: ConnectionGuard

  constructor(options: HttpServerOptions<Actor>) {
    this.#options = options
    const { config } = options
    this.#bodies = createBodyReader({
      maxBodyBytes: config.maxBodyBytes,
      maxStreamBytes: config.maxStreamBytes ?? config.maxBodyBytes,
      timeoutMs: Math.min(config.requestTimeoutSeconds, MAX_IDLE_SECONDS - HANDLER_GRACE_SECONDS) * 1000,
      memory: options.memory,
      clock: options.clock,
    })
    this.#idleSeconds = Math.min(
      MAX_IDLE_SECONDS,
      config.requestTimeoutSeconds + (config.handlerGraceSeconds ?? HANDLER_GRACE_SECONDS),
    )
    this.#isTrustedProxy = createNetworkMatcher(config.trustedProxies)
    this.#guard = new ConnectionGuard(options)
    this.#app = new RequestPipeline(options, this.#bodies).compose()
  }

  async #handle(request: Request, connection?: Connection, caller?: InternalCaller): Promise<Response> {
    if (connection) this.#guard.requests.add(() => connection.server.requestIP(request)?.port)
    const { clock, onResponse } = this.#options
    const startedAtMs = clock.monotonicMs()
    const url = toRoutableUrl(request.url)
    const context = this.#contextOf(request, url, connection, caller)
    const response = await this.#respond(request, url, context, connection)
    const { method, headers } = request
    onResponse?.(response, Object.assign(context, { method, headers, durationMs: clock.monotonicMs() - startedAtMs }))
    return this.#options.config.isHttps ? addStrictTransport(response) : response
  }

  #contextOf(
    request: Request,
    url: string,
    connection: Connection | undefined,
    caller: InternalCaller | undefined,
  ): RequestContext {
    const { headers } = request
    const givenId = headers.get('x-request-id')
    return {
      requestId: givenId !== null && VALID_REQUEST_ID.test(givenId) ? givenId : this.#options.newRequestId(),
      path: pathOf(url),
      actor: undefined,
      knownActor: caller?.actor,
      via: caller?.via,
      reservation: undefined,
      clientIp:
        caller?.clientIp ??
        (() =>
          resolveClientIp(
            connection?.peerAddress(request) ?? '',
            headers.get('x-forwarded-for'),
            this.#isTrustedProxy,
          )),
      setTimeout: (seconds) => connection?.server.timeout(request, seconds),
      idleSeconds: this.#idleSeconds,
      // A request that the service makes for a client, such as a tool call of MCP, has no User-Agent and no strict reader.
      isStrict: caller === undefined && this.#isStrict(headers.get('user-agent')),
    }
  }

  #isStrict(userAgent: string | null): boolean {
    const { strictClients = [] } = this.#options.config
    return strictClients.some((prefix) => (userAgent || NO_USER_AGENT).startsWith(prefix))
  }

  async #respond(
    request: Request,
    url: string,
    context: RequestContext,
    connection: Connection | undefined,
  ): Promise<Response> {
    const routed = url === request.url ? request : copyRequestTo(url, request)
    setRequestContext(routed, context)
    const screened = connection && this.#screen(request, url, connection, context)
    if (screened) {
      await this.#bodies.readOn(routed)
      return screened
    }
    try {
      const response = await this.#app.fetch(routed)
      await this.#bodies.readOn(routed)
      const ended = await endRepeatable(context, response, this.#options.log)
      const cut = context.strictFilter ? await cutResponse(ended, context.strictFilter) : ended
      return await negotiate(request, cut, context.hasRows === true)
    } catch (thrown) {
      // Elysia's own error handling fails on a thrown null or undefined.
      context.reservation?.release()
      this.#options.log.error({ err: thrown, requestId: context.requestId, path: context.path }, 'request failed')
      return await endRepeatable(context, toErrorResponse(internalError(thrown), context.requestId), this.#options.log)
    }
  }

  #screen(request: Request, url: string, connection: Connection, { requestId }: RequestContext): Response | undefined {
    const { screen } = this.#options
    if (!screen) return undefined
    const { isTls } = connection
    const isProxied = this.#isTrustedProxy(connection.peerAddress(request))
    const screening = screen({ url: new URL(url), isTls, isProxied })
    if (!screening) return undefined
    if ('notFound' in screening) return toErrorResponse(unknownRoute(), requestId)
    // 308 keeps method and body.
    return new Response(null, { status: 308, headers: { location: screening.redirectTo, 'x-request-id': requestId } })
  }

  /**
   * Handles a request without a socket.
   * @param caller for whom: a client with this address, or an actor who needs no key; default: neither
   */
  fetch(request: Request, caller?: InternalCaller): Promise<Response> {
    return this.#handle(request, undefined, caller)
  }

  /** Binds and serves; with port 0, the system chooses the port. */
  listen(hostname: string, port: number): { readonly hostname: string; readonly port: number } {
    const listener = this.#serve(hostname, port, (request, server) =>
      this.#handle(request, {
        server,
        isTls: false,
        peerAddress: (received) => server.requestIP(received)?.address ?? '',
      }),
    )
    return { hostname: listener.hostname ?? hostname, port: listener.port ?? port }
  }

  /** Binds and serves over TLS, beside `listen`. Rejects with the system's error. */
  async listenTls(
    hostname: string,
    port: number,
    certificates: TlsCertificates,
  ): Promise<{ readonly hostname: string; readonly port: number }> {
    const clients = this.#guard.tlsClients
    const inner = this.#serve('127.0.0.1', 0, (request, server) => {
      const client = clients.get(server.requestIP(request)?.port ?? 0)
      // Another process of this machine, which is not a client.
      if (client === undefined) return new Response(null, { status: 421 })
      return this.#handle(request, { server, isTls: true, peerAddress: () => client.address })
    })
    try {
      this.#tls = await startTlsListener({
        hostname,
        port,
        certificates,
        targetPort: inner.port ?? 0,
        onConnected: (port, client) => clients.set(port, client),
        onClosed: (port) => clients.delete(port),
        clock: this.#options.clock,
      })
    } catch (error) {
      this.#servers = this.#servers.filter((server) => server !== inner)
      await inner.stop(true)
      throw error
    }
    this.#guard.ports.add(this.#tls.port)
    return { hostname: this.#tls.hostname, port: this.#tls.port }
  }

  #serve(
    hostname: string,
    port: number,
    fetch: (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>,
  ): Bun.Server<undefined> {
    const listener = Bun.serve({
      hostname,
      port,
      development: false,
      reusePort: false,
      // This limit counts from the start of a request, and bytes of the body do not extend it, so it also ends bodies
      // that arrive in a trickle. Headers always have 10 seconds (measured in Bun 1.4.5).
      idleTimeout: this.#idleSeconds,
      // Bun's own 413 has no body, so our limit must apply first.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch,
    })
    this.#servers.push(listener)
    this.#guard.ports.add(listener.port ?? 0)
    this.#guard.start()
    return listener
  }

  /** Stops accepting, lets running requests finish for up to `graceMs`, then closes the remaining connections. */
  async stop(graceMs = DEFAULT_STOP_GRACE_MS): Promise<void> {
    const stopping = this.#servers
    if (stopping.length === 0) return
    this.#servers = []
    this.#guard.stop()
    this.#tls?.stop()
    const timer = this.#options.clock.after(graceMs, () => {
      for (const server of stopping) void server.stop(true)
    })
    await Promise.all(stopping.map((server) => server.stop()))
    timer.cancel()
    this.#tls?.closeAll()
  }
}

export type HttpServer = Pick<BunHttpServer<unknown>, 'fetch' | 'listen' | 'listenTls' | 'stop'>

interface Connection {
  readonly server: Bun.Server<undefined>
  readonly isTls: boolean
  /** The address of the client, or of the last proxy. */
  peerAddress(request: Request): string
}

/** Ends the first request with an idempotency key; returns any other response as it is. */
const endRepeatable = ({ repeat }: RequestContext, response: Response, log: HttpLog): Response | Promise<Response> =>
  repeat?.kind === 'new' ? endNewRequest(repeat, response, log) : response

/** The response with its JSON cut by `filter`, which comes last: the schema check wants the whole body. */
async function cutResponse(response: Response, filter: FieldFilter): Promise<Response> {
  const text = await response.text()
  const headers = new Headers(response.headers)
  headers.delete('content-length')
  return new Response(text === '' ? null : JSON.stringify(filter(JSON.parse(text))), {
    status: response.status,
    headers,
  })
}

function addStrictTransport(response: Response): Response {
  response.headers.set('strict-transport-security', STRICT_TRANSPORT)
  return response
}

/**
 * Copies a request with another URL and passes its body on. Copying the request itself would make Bun 1.4.5 keep the
 * whole body for the original, however the copy is read.
 */
const copyRequestTo = (url: string, request: Request): Request =>
  new Request(url, { method: request.method, headers: request.headers, body: request.body, signal: request.signal })

/**
 * Normalises the URL so that Elysia can route it and handlers can read it. Clients with a trailing slash in their base
 * URL request `//v1/...`; a request without a usable Host arrives as a bare path, or with an invalid host such as
 * `xn--`.
 */
function toRoutableUrl(url: string): string {
  const absolute = url.startsWith('/')
    ? `http://localhost${url}`
    : URL.canParse(url)
      ? url
      : `http://localhost${pathOf(url)}`
  const pathStart = absolute.indexOf('/', absolute.indexOf('://') + 3)
  if (pathStart === -1 || absolute.charCodeAt(pathStart + 1) !== 47) return absolute
  return absolute.slice(0, pathStart) + absolute.slice(pathStart).replace(/^\/+/, '/')
}

/**
 * The path by which Elysia routes. Every check must use this path, or two checks could disagree on whether a request is
 * public.
 */
function pathOf(url: string): string {
  const start = url.indexOf('/', 7)
  const query = url.indexOf('?', start + 1)
  return query === -1 ? url.slice(start) : url.slice(start, query)
}
