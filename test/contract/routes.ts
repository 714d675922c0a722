/**
 * @module Every route of the API as the contract wants it: the scope it needs, a request that it takes, the success and the shape it answers
 * with. The matrices run over this table and fail when a route of the service is not in it, so a new route is added here first.
 */
import { expect } from 'bun:test'
import { createRoutes } from '#app/http.ts'
import type { Actor } from '#features/app.ts'
import { writeOutcome } from '#features/delivery/outcome.ts'
import { claimDue } from '#features/emails/status.ts'
import { parseUuid } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import { type ApiAnswer, type ApiOptions, at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi, UNVERIFIED } from '#test/support/email-api.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** What the id of a path names. */
export type Resource =
  | 'api-key'
  | 'captured-email'
  | 'dead-letter'
  | 'domain'
  | 'email'
  | 'operation'
  | 'stream'
  | 'suppression'
  | 'tracking-domain'
  | 'webhook'
  | 'webhook-delivery'

export interface Route {
  readonly method: Method
  /** With `{id}` for the id of `resource`. */
  readonly path: string
  readonly scope: string
  readonly resource?: Resource
  /** A valid body, another one at each call. */
  readonly body?: () => unknown
  readonly status: 200 | 201 | 202 | 204
  /** Top-level keys of the answer: `data` alone, a page, or as listed. */
  readonly shape: 'one' | 'list' | 'none' | readonly string[]
  /** A body, another one at each call, or an answer that is CSV. */
  readonly csv?: (() => string) | 'answer'
  /** True where an id that names nothing, or something of others, is answered like one's own, and nothing happens. */
  readonly isUnknownFine?: boolean
  /** True where `data` is one object though other keys stand beside it. */
  readonly isOne?: boolean
  /** False for a list that is always one page. */
  readonly paged?: boolean
}

let made = 0
const unique = (name: string): string => `${name}-${++made}`

/** An address where nobody listens: nothing is looked up for it, and nothing is sent here. */
const WEBHOOK = { url: 'https://127.0.0.1/events', events: ['sent', 'bounced'] }

const get = (path: string, scope: string, more: Partial<Route> = {}): Route => ({
  method: 'GET',
  path,
  scope,
  status: 200,
  shape: 'one',
  ...more,
})
const listed = (path: string, scope: string, more: Partial<Route> = {}): Route =>
  get(path, scope, { shape: 'list', paged: true, ...more })
const removal = (path: string, scope: string, resource: Resource): Route => ({
  method: 'DELETE',
  path,
  scope,
  resource,
  status: 204,
  shape: 'none',
})

export const ROUTES: readonly Route[] = [
  get('/v1/account', 'account:read'),
  {
    ...get('/v1/account', 'account:admin'),
    method: 'PATCH',
    body: () => ({ name: unique('Name') }),
  },
  listed('/v1/api-keys', 'account:admin', { paged: false }),
  {
    ...get('/v1/api-keys', 'account:admin'),
    method: 'POST',
    body: () => ({ name: unique('key'), scopes: ['account:admin'] }),
    status: 201,
  },
  removal('/v1/api-keys/{id}', 'account:admin', 'api-key'),
  listed('/v1/audit-logs', 'account:read'),
  get('/v1/dead-letters', 'emails:read', { shape: ['data', 'total'] }),
  removal('/v1/dead-letters/{id}', 'emails:send', 'dead-letter'),
  {
    ...get('/v1/dead-letters/{id}/retry', 'emails:send', { resource: 'dead-letter', shape: ['message'] }),
    method: 'POST',
  },
  listed('/v1/domains', 'domains:read'),
  {
    ...get('/v1/domains', 'domains:write', { status: 201 }),
    method: 'POST',
    body: () => ({ domain: `${unique('domain')}.test` }),
  },
  get('/v1/domains/{id}', 'domains:read', { resource: 'domain' }),
  {
    ...get('/v1/domains/{id}', 'domains:write', { resource: 'domain' }),
    method: 'PATCH',
    body: () => ({ inbound_enabled: true }),
  },
  removal('/v1/domains/{id}', 'domains:write', 'domain'),
  { ...get('/v1/domains/{id}/verify', 'domains:write', { resource: 'domain' }), method: 'POST' },
  {
    ...get('/v1/domains/{id}/tracking-domain', 'domains:write', { resource: 'domain' }),
    method: 'PUT',
    body: () => ({ tracking_domain: `links.${unique('host')}.test` }),
    shape: ['cname_target', 'data'],
    isOne: true,
  },
  { ...get('/v1/domains/{id}/tracking-domain', 'domains:write', { resource: 'tracking-domain' }), method: 'DELETE' },
  {
    ...get('/v1/domains/{id}/verify-tracking', 'domains:write', { resource: 'tracking-domain' }),
    method: 'POST',
    shape: ['data', 'tracking_check'],
    isOne: true,
  },
  listed('/v1/emails', 'emails:read'),
  { ...get('/v1/emails', 'emails:send', { status: 202 }), method: 'POST', body: () => EMAIL },
  {
    ...get('/v1/emails/batch', 'emails:send', { status: 202, shape: ['data', 'errors', 'operation_id'] }),
    method: 'POST',
    body: () => ({ emails: [EMAIL, {}] }),
  },
  get('/v1/emails/{id}', 'emails:read', { resource: 'email' }),
  get('/v1/emails/{id}/captured', 'emails:read', { resource: 'captured-email' }),
  listed('/v1/emails/{id}/links', 'emails:read', { resource: 'email', paged: false }),
  { ...get('/v1/emails/{id}/cancel', 'emails:send', { resource: 'email' }), method: 'POST' },
  get('/v1/events', 'emails:read', { shape: ['data', 'first_seq', 'next_after'] }),
  listed('/v1/operations', 'emails:read'),
  get('/v1/operations/{id}', 'emails:read', { resource: 'operation' }),
  listed('/v1/streams', 'emails:read'),
  {
    ...get('/v1/streams', 'emails:send', { status: 201 }),
    method: 'POST',
    body: () => ({ slug: unique('stream'), name: 'A stream' }),
  },
  get('/v1/streams/{id}', 'emails:read', { resource: 'stream' }),
  {
    ...get('/v1/streams/{id}', 'emails:send', { resource: 'stream' }),
    method: 'PUT',
    body: () => ({ name: unique('Name') }),
  },
  removal('/v1/streams/{id}', 'emails:send', 'stream'),
  listed('/v1/suppressions', 'suppressions:read'),
  {
    ...get('/v1/suppressions', 'suppressions:write', { status: 201 }),
    method: 'POST',
    body: () => ({ email_address: `${unique('suppressed')}@receiver.test` }),
  },
  { ...removal('/v1/suppressions/{email}', 'suppressions:write', 'suppression'), isUnknownFine: true },
  get('/v1/suppressions/export', 'suppressions:read', { csv: 'answer', shape: 'none' }),
  {
    ...get('/v1/suppressions/import', 'suppressions:write', { shape: ['data', 'errors'], isOne: true }),
    method: 'POST',
    csv: () => `email_address\n${unique('imported')}@receiver.test\n`,
  },
  listed('/v1/webhooks', 'webhooks:read'),
  { ...get('/v1/webhooks', 'webhooks:write', { status: 201 }), method: 'POST', body: () => WEBHOOK },
  get('/v1/webhooks/{id}', 'webhooks:read', { resource: 'webhook' }),
  {
    ...get('/v1/webhooks/{id}', 'webhooks:write', { resource: 'webhook' }),
    method: 'PUT',
    body: () => ({ ...WEBHOOK, is_active: true }),
  },
  removal('/v1/webhooks/{id}', 'webhooks:write', 'webhook'),
  { ...get('/v1/webhooks/{id}/test', 'webhooks:write', { resource: 'webhook' }), method: 'POST' },
  listed('/v1/webhooks/{id}/deliveries', 'webhooks:read', { resource: 'webhook', paged: false }),
  {
    ...get('/v1/webhooks/{id}/deliveries/{delivery_id}/replay', 'webhooks:write', {
      resource: 'webhook-delivery',
      status: 202,
    }),
    method: 'POST',
  },
  {
    ...get('/v1/webhooks/{id}/replay', 'webhooks:write', { resource: 'webhook', status: 202 }),
    method: 'POST',
    body: () => ({ from_seq: 1 }),
  },
]

/** Routes that need no key; all else under /v1 does. */
export const PUBLIC_ROUTES: readonly string[] = [
  'GET /healthz',
  'GET /t/tls-allowed',
  'GET /readyz',
  'GET /openapi.json',
  'GET /docs',
  'GET /docs/start.js',
  'GET /docs/swagger-ui.js',
  'GET /docs/swagger-ui.css',
  'GET /t/o/{token}',
  'GET /t/c/{token}/{target}',
  'GET /t/*',
  'GET /u/{token}',
  'POST /u/{token}',
]

export const nameOf = ({ method, path }: Route): string => `${method} ${path}`

/** Method and path of every route of the service, sorted. */
export const routesOf = ({ opened }: EmailApi): string[] =>
  createRoutes(opened)
    .flatMap((plugin) => plugin.routes)
    .map(({ method, path }) => `${method} ${path.replace(/(.)\/$/, '$1').replace(/:(\w+)/g, '{$1}')}`)
    .sort()

/** An id in the form of those of `resource` that names nothing. */
export const unknownId = (resource: Resource): string =>
  resource === 'dead-letter' ? '987654321' : '01234567-89ab-7def-8123-456789abcdef'

/** The webhook of each delivery that was made; what names no delivery is asked of the newest webhook. */
const webhookOfDelivery = new Map<string, string>()

export const pathOf = ({ path, resource }: Route, id: string): string =>
  resource === 'webhook-delivery'
    ? path
        .replace('{id}', webhookOfDelivery.get(id) ?? [...webhookOfDelivery.values()].at(-1) ?? 'x')
        .replace('{delivery_id}', id)
    : path.replace('{id}', id).replace('{email}', encodeURIComponent(id))

export interface ContractApi extends EmailApi {
  /** Makes a new one of its kind in the first account and gives its id. */
  make(resource: Resource): Promise<string>
  /** Asks a route with a valid body. */
  ask(route: Route, id: string, options?: ApiOptions): Promise<ApiAnswer>
}

/** A service with an account that has one of everything. */
export async function createContractApi(): Promise<ContractApi> {
  const service = await createEmailApi()
  const { api, accepted } = service
  const post = async (path: string, body: unknown): Promise<ApiAnswer> => {
    const answer = await api('POST', path, body)
    expect(answer.status).toBeOneOf([201, 202])
    return answer
  }
  const make: ContractApi['make'] = async (resource) => {
    switch (resource) {
      case 'api-key':
        return String(at((await post('/v1/api-keys', { name: unique('key') })).body, 'data', 'id'))
      case 'captured-email':
        return makeCapturedEmail(service)
      case 'domain':
        return String(at((await post('/v1/domains', { domain: `${unique('made')}.test` })).body, 'data', 'id'))
      case 'tracking-domain': {
        const id = await make('domain')
        const host = { tracking_domain: `links.${unique('made')}.test` }
        expect((await api('PUT', `/v1/domains/${id}/tracking-domain`, host)).status).toBe(200)
        return id
      }
      case 'email':
        return (await accepted({ send_at: new Date(service.clock.now() + hours(1)).toISOString() })).id
      case 'operation':
        return String(at((await post('/v1/emails/batch', { emails: [EMAIL] })).body, 'operation_id'))
      case 'stream':
        return String(at((await post('/v1/streams', { slug: unique('made'), name: 'Made' })).body, 'data', 'id'))
      case 'suppression': {
        const address = { email_address: `${unique('made')}@receiver.test` }
        return String(at((await post('/v1/suppressions', address)).body, 'data', 'email_address'))
      }
      case 'webhook':
        return String(at((await post('/v1/webhooks', WEBHOOK)).body, 'data', 'id'))
      case 'webhook-delivery': {
        const webhook = await make('webhook')
        expect((await api('POST', `/v1/webhooks/${webhook}/test`)).status).toBe(200)
        const id = String(at((await api('GET', `/v1/webhooks/${webhook}/deliveries`)).body, 'data', 0, 'id'))
        webhookOfDelivery.set(id, webhook)
        return id
      }
      case 'dead-letter':
        return makeDeadLetter(service)
    }
  }
  return {
    ...service,
    make,
    ask: (route, id, options) =>
      route.csv ? askCsv(service, route, options) : api(route.method, pathOf(route, id), route.body?.(), options),
  }
}

/** A body that is CSV in the answer is left out. */
async function askCsv(
  { url, key }: EmailApi,
  { method, path, csv }: Route,
  options: ApiOptions = {},
): Promise<ApiAnswer> {
  const token = options.key === undefined ? key : options.key
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(typeof csv === 'function' && { 'content-type': 'text/csv' }),
      ...options.headers,
    },
    ...(typeof csv === 'function' && { body: csv() }),
  })
  const isCsv = /^text\/csv\b/.test(response.headers.get('content-type') ?? '')
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: isCsv ? undefined : JSON.parse(text) }
}

async function makeDeadLetter({ app, api, accepted }: EmailApi): Promise<string> {
  const lane = `${unique('lost')}.test`
  await accepted({ to: `bob@${lane}` })
  await app.commit.write((tx) => {
    const now = app.clock.now()
    const claimed = claimDue(tx, lane, { now, eventTime: now, limit: 1, retryAt: () => now + hours(1) })
    expect(claimed).toHaveLength(1)
    for (const hand of claimed) {
      const verdict = { kind: 'failed', reason: 'The message could not be composed' } as const
      writeOutcome(app, tx, { ...hand, startedAt: undefined }, verdict, undefined)
    }
  })
  return String(at((await api('GET', '/v1/dead-letters')).body, 'data', 0, 'id'))
}

async function makeCapturedEmail({ app, opened, accepted }: EmailApi): Promise<string> {
  const { id } = await accepted({ from: `ada@${UNVERIFIED}` })
  const recipient = app.db
    .query<{ id: number; emailId: number }, [Uint8Array]>(
      'SELECT recipients.id, email_id AS emailId FROM recipients JOIN emails ON emails.id = email_id WHERE uuid = ?',
    )
    .get(parseUuid(id) ?? new Uint8Array())
  if (!recipient) throw new Error(`no recipient of ${id}`)
  await opened.captures.save({
    recipientId: recipient.id,
    emailId: recipient.emailId,
    mailFrom: `bounce@${UNVERIFIED}`,
    rcptTo: EMAIL.to,
    raw: Buffer.from('Subject: Hello\r\n\r\nHello, Bob.\r\n'),
  })
  return id
}

/** All that the main database holds, to see that nothing changed. When keys were last used is left out. */
export function dump({ app }: EmailApi): string {
  const tables = app.db
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all()
  const rows = tables.map(({ name }) => [name, app.db.query(`SELECT * FROM "${name}"`).all()])
  return JSON.stringify(rows, (key, value) => (key === 'last_used_at' ? undefined : value))
}

/** A second account with its own key. */
export async function addAccount(service: EmailApi): Promise<{ actor: Actor; key: string }> {
  const actor = await service.newAccount()
  return { actor, key: await service.newKey([], actor) }
}
