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
export type Resource = 'api-key' | 'captured-email' | 'dead-letter' | 'domain' | 'email' | 'operation' | 'stream'

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
  /** False for a list that is always one page. */
  readonly paged?: boolean
}

let made = 0
const unique = (name: string): string => `${name}-${++made}`

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
  listed('/v1/emails', 'emails:read'),
  { ...get('/v1/emails', 'emails:send', { status: 202 }), method: 'POST', body: () => EMAIL },
  {
    ...get('/v1/emails/batch', 'emails:send', { status: 202, shape: ['data', 'errors', 'operation_id'] }),
    method: 'POST',
    body: () => ({ emails: [EMAIL, {}] }),
  },
  get('/v1/emails/{id}', 'emails:read', { resource: 'email' }),
  get('/v1/emails/{id}/captured', 'emails:read', { resource: 'captured-email' }),
  { ...get('/v1/emails/{id}/cancel', 'emails:send', { resource: 'email' }), method: 'POST' },
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
]

/** Routes that need no key; all else under /v1 does. */
export const PUBLIC_ROUTES: readonly string[] = [
  'GET /healthz',
  'GET /readyz',
  'GET /openapi.json',
  'GET /docs',
  'GET /docs/start.js',
  'GET /docs/swagger-ui.js',
  'GET /docs/swagger-ui.css',
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

export const pathOf = ({ path }: Route, id: string): string => path.replace('{id}', id)

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
      case 'email':
        return (await accepted({ send_at: new Date(service.clock.now() + hours(1)).toISOString() })).id
      case 'operation':
        return String(at((await post('/v1/emails/batch', { emails: [EMAIL] })).body, 'operation_id'))
      case 'stream':
        return String(at((await post('/v1/streams', { slug: unique('made'), name: 'Made' })).body, 'data', 'id'))
      case 'dead-letter':
        return makeDeadLetter(service)
    }
  }
  return {
    ...service,
    make,
    ask: (route, id, options) => api(route.method, pathOf(route, id), route.body?.(), options),
  }
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
