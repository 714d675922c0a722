/** @module A server with one small, typical feature, for tests of the HTTP platform. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { publicRoute, requires } from '#platform/http/access.ts'
import { dataBody, pageBody } from '#platform/http/envelope.ts'
import { html, htmlResponse } from '#platform/http/html.ts'
import { authenticatedAs, clientIpOf } from '#platform/http/request-context.ts'
import {
  DataBody,
  FreeMap,
  mapFromPhp,
  Nullable,
  notFoundById,
  PAGE_FIELDS,
  PageBody,
  parsePage,
  parseUuidParam,
  StrictObject,
  StringEnum,
} from '#platform/http/schemas.ts'
import { BunHttpServer, type HttpServer, type HttpServerOptions } from '#platform/http/server.ts'
import { MemoryBudget } from '#platform/process/memory-budget.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { KiB, MiB } from '#platform/units.ts'

export interface TestActor {
  readonly name: string
  readonly scopes: readonly string[]
}

const ACTORS: ReadonlyMap<string, TestActor> = new Map([
  ['tassis_live_reader', { name: 'reader', scopes: ['boxes:read'] }],
  ['tassis_live_writer', { name: 'writer', scopes: ['boxes:read', 'boxes:write'] }],
])

const authenticated = authenticatedAs<TestActor>()

const Box = Type.Object({ id: Type.String(), label: Type.String(), note: Type.Optional(Nullable(Type.String())) })
const NewBox = StrictObject({
  label: Type.String({ minLength: 1, maxLength: 40 }),
  kind: Type.Optional(StringEnum(['paper', 'wood'])),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 9 })),
  note: Type.Optional(Nullable(Type.String())),
  to: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  items: Type.Optional(Type.Array(StrictObject({ name: Type.String() }))),
  metadata: Type.Optional(Nullable(FreeMap())),
  content: Type.Optional(Type.String()),
})
const BoxQuery = Type.Object({ ...PAGE_FIELDS, kind: Type.Optional(StringEnum(['paper', 'wood'])) })

export const BOX_ID = '01234567-89ab-7def-8123-456789abcdef'
const secretBox = { id: BOX_ID, label: 'first', note: null, secret: 'never shown' }

const createBox = (actor: TestActor, box: Static<typeof NewBox>) => ({
  id: BOX_ID,
  label: `${box.label} of ${actor.name}`,
  ...(box.metadata === undefined ? {} : { note: JSON.stringify(mapFromPhp(box.metadata)) }),
  secret: 'never shown',
})

export const boxRoutes = () =>
  new Elysia({ prefix: '/v1/boxes' })
    .use(authenticated)
    .get('/', ({ query }) => pageBody([secretBox], { ...parsePage(query), total: 1 }), {
      query: BoxQuery,
      response: PageBody(Box),
      detail: { summary: 'List boxes', tags: ['Boxes'], ...requires('boxes:read') },
    })
    .post('/', ({ actor, body, status }) => status(201, dataBody(createBox(actor, body))), {
      body: NewBox,
      response: { 201: DataBody(Box) },
      detail: { summary: 'Make a box', tags: ['Boxes'], ...requires('boxes:write') },
    })
    .get(
      '/:id',
      ({ params }) => {
        parseUuidParam(params.id, 'box_not_found', 'box')
        if (params.id !== BOX_ID) throw notFoundById('box_not_found', 'box')
        return dataBody(secretBox)
      },
      { response: DataBody(Box), detail: { summary: 'Read a box', tags: ['Boxes'], ...requires('boxes:read') } },
    )
    .delete(
      '/:id',
      ({ set }) => {
        set.status = 204
      },
      {
        detail: { summary: 'Remove a box', tags: ['Boxes'], ...requires('boxes:write') },
      },
    )
    .post('/:id/open', ({ actor }) => ({ message: `opened by ${actor.name}` }), {
      response: Type.Object({ message: Type.String() }),
      detail: { summary: 'Open a box', tags: ['Boxes'], ...requires('boxes:read') },
    })

export const planRoutes = () =>
  new Elysia({ prefix: '/v1/plans' }).get('/', () => dataBody([{ plan: 'free' }]), {
    response: DataBody(Type.Array(Type.Object({ plan: Type.String() }))),
    detail: { summary: 'List plans', tags: ['Plans'], ...publicRoute },
  })

const pages = () =>
  new Elysia()
    .get('/healthz', () => ({ status: 'ok' }))
    .get('/address', ({ request }) => clientIpOf(request))
    .get('/said/:text', ({ params }) => ({ text: params.text }))
    .get('/page', ({ query }) => htmlResponse(html`<p>${query['name'] ?? ''}</p>`))
    .post('/page', ({ body }) => htmlResponse(html`<p>${body.email}</p>`), {
      body: Type.Object({ email: Type.String() }),
    })

const faults = () =>
  new Elysia({ prefix: '/v1/faults' })
    .use(authenticated)
    .get(
      '/thrown',
      () => {
        throw new Error('SELECT secret FROM /var/lib/secret')
      },
      { detail: requires('boxes:read') },
    )
    .get('/rejected', async () => Promise.reject(new Error('SELECT secret')), { detail: requires('boxes:read') })
    .get(
      '/null',
      () => {
        throw null
      },
      { detail: requires('boxes:read') },
    )
    .get('/shape', () => ({ count: 'topsecret' }) as unknown as { count: number }, {
      response: Type.Object({ count: Type.Integer() }),
      detail: requires('boxes:read'),
    })

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly context: object
  readonly message: string
}

export interface TestServer extends AsyncDisposable {
  readonly http: HttpServer
  readonly port: number
  readonly log: readonly LogLine[]
  readonly memory: MemoryBudget
  /** Sends the writer's key unless `headers` has another. */
  request(path: string, init?: RequestInit): Promise<Response>
}

export interface TestServerOptions extends Partial<HttpServerOptions<TestActor>['config']> {
  readonly corsOrigins?: readonly string[]
  readonly dialects?: HttpServerOptions<TestActor>['dialects']
  readonly memoryBudgetBytes?: number
  readonly clock?: Clock
  readonly routes?: HttpServerOptions<TestActor>['routes']
}

export function startTestServer(options: TestServerOptions = {}): TestServer {
  const log: LogLine[] = []
  const logAt = (level: LogLine['level']) => (context: object, message: string) =>
    void log.push({ level, context, message })
  const memory = new MemoryBudget(options.memoryBudgetBytes ?? 64 * MiB)
  let requests = 0
  const http = new BunHttpServer<TestActor>({
    config: {
      maxBodyBytes: options.maxBodyBytes ?? 256 * KiB,
      trustedProxies: options.trustedProxies ?? [],
      requestTimeoutSeconds: options.requestTimeoutSeconds ?? 30,
      ...(options.corsOrigins && { corsOrigins: options.corsOrigins }),
      ...(options.isHttps !== undefined && { isHttps: options.isHttps }),
      ...(options.handlerGraceSeconds !== undefined && { handlerGraceSeconds: options.handlerGraceSeconds }),
    },
    log: { info: logAt('info'), warn: logAt('warn'), error: logAt('error') },
    clock: options.clock ?? systemClock,
    memory,
    newRequestId: () => `request-${++requests}`,
    authenticate: (key) => ACTORS.get(key),
    hasScope: (actor, scope) => actor.scopes.includes(scope),
    ...(options.dialects && { dialects: options.dialects }),
    routes: options.routes ?? [boxRoutes(), planRoutes(), pages(), faults()],
  })
  const { port } = http.listen('127.0.0.1', 0)
  return {
    http,
    port,
    log,
    memory,
    request: (path, init = {}) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        ...init,
        headers: init.headers ?? {
          authorization: 'Bearer tassis_live_writer',
          ...(init.body === undefined || init.body === null ? {} : { 'content-type': 'application/json' }),
        },
      }),
    [Symbol.asyncDispose]: () => http.stop(0),
  }
}
