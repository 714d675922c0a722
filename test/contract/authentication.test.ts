import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type ApiResponse, at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import {
  buildPath,
  type ContractApi,
  createContractApi,
  dumpDatabase,
  listOpenedRoutes,
  PUBLIC_ROUTES,
  ROUTES,
  routeName,
  SESSION_ROUTES,
} from './routes.ts'

let service: ContractApi
let revoked: string
let other: string
beforeAll(async () => {
  service = await createContractApi()
  other = await service.newKey()
  const created = await service.api('POST', '/v1/api-keys', { name: 'to be revoked' })
  revoked = String(at(created.body, 'data', 'key'))
  expect((await service.api('GET', '/v1/account', undefined, { key: revoked })).status).toBe(200)
  expect((await service.api('DELETE', `/v1/api-keys/${at(created.body, 'data', 'id')}`)).status).toBe(204)
})
afterAll(() => service[Symbol.asyncDispose]())

const expectUnauthorized = (answer: ApiResponse): void => {
  const refusal = { code: 'invalid_api_key', message: 'Invalid API key', type: 'authentication_error' }
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 401,
    body: { error: { ...refusal, docs_url: null }, ...refusal, request_id: answer.headers.get('x-request-id') },
  })
  expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer\b/)
}

test('the table of routes has every route of the service and no other', () => {
  const table = [...ROUTES.map(routeName), ...SESSION_ROUTES, ...PUBLIC_ROUTES].sort()
  expect(listOpenedRoutes(service)).toEqual(table)
})

test("every route of another provider's interface is refused without a key, and stores nothing", async () => {
  const before = dumpDatabase(service)
  // A link to a file is its own key.
  const routes = listOpenedRoutes(service, { ofDialects: true }).filter((route) => route !== 'GET /resend/files')
  expect(routes).toEqual(expect.arrayContaining(['POST /mcp', 'POST /email', 'POST /resend/emails']))
  for (const route of routes) {
    const [method = '', path = ''] = route.split(' ')
    const url = path.replace(/\{\w+\}/g, '1')
    const { status, body } = await service.api(method, url, method === 'GET' ? undefined : {}, { key: null })
    // Postal's interface has its errors in a 200.
    const refused = path.startsWith('/api/v1/') ? at(body, 'data', 'code') : status
    expect([route, refused]).toEqual([route, path.startsWith('/api/v1/') ? 'InvalidServerAPIKey' : 401])
  }
  expect(dumpDatabase(service)).toBe(before)
})

// Proves: user-6
test.each(SESSION_ROUTES)('%s is a 401 without credentials and a 403 for keys', async (route) => {
  const [method = '', path = ''] = route.split(' ')
  const before = dumpDatabase(service)
  expectUnauthorized(await service.api(method, path, undefined, { key: null }))
  expectError(await service.api(method, path), 403, 'session_required')
  expect(dumpDatabase(service)).toBe(before)
})

describe.each(ROUTES.map((route) => [routeName(route), route] as const))('%s', (_, route) => {
  // Proves: auth-6, auth-7, auth-8, auth-9, auth-10, error-1, error-5
  test('returns 401 and the exact body without a valid key', async () => {
    const before = dumpDatabase(service)
    const { key } = service
    const unknown = `tassis_live_${'x'.repeat(32)}`
    const withoutKey: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: key },
      { authorization: `Basic ${key}` },
      { authorization: `Token ${key}` },
      { authorization: `Bearer ${key} ${key}` },
      { authorization: `Bearer ${key}x` },
      { authorization: `Bearer ${key.slice(0, -1)}` },
      { authorization: `Bearer ${key.toUpperCase()}` },
      { authorization: `Bearer ${unknown}` },
      { 'x-service-api-key': '' },
      { 'x-service-api-key': unknown },
      { 'x-service-api-key': `Bearer ${key}` },
      { authorization: `Bearer ${revoked}` },
      { 'x-service-api-key': revoked },
      { authorization: `Bearer ${key}`, 'x-service-api-key': other },
      { authorization: `Bearer ${other}`, 'x-service-api-key': key },
      { authorization: `Bearer ${key}`, 'x-service-api-key': unknown },
      { authorization: `Bearer ${unknown}`, 'x-service-api-key': key },
    ]
    const id = route.resource ? await service.make(route.resource) : ''
    const prepared = route.resource ? dumpDatabase(service) : before
    for (const headers of withoutKey) expectUnauthorized(await service.ask(route, id, { key: null, headers }))
    expectUnauthorized(await service.ask({ ...route, path: `/${route.path}` }, id, { key: null }))
    expectUnauthorized(
      await service.ask({ ...route, path: `${route.path}?key=${key}&api_key=${key}` }, id, { key: null }),
    )
    expect(dumpDatabase(service)).toBe(prepared)
  })
})

// Proves: auth-14
test.each(ROUTES.filter(({ method }) => method !== 'GET').map((route) => [routeName(route), route] as const))(
  '%s checks the key before the body',
  async (_, route) => {
    const bodies: [string, string][] = [
      ['{"from": ', 'application/json'],
      ['<email/>', 'text/xml'],
      ['{"unknown": 1}', 'application/json'],
    ]
    for (const [body, contentType] of bodies) {
      const response = await fetch(`${service.url}${buildPath(route, 'x')}`, {
        method: route.method,
        headers: { 'content-type': contentType },
        body,
      })
      expectUnauthorized({ status: response.status, headers: response.headers, body: await response.json() })
    }
  },
)

// Proves: auth-4, auth-5, auth-6
test('either header is enough; both may have the same key', async () => {
  const { key } = service
  for (const headers of [
    { authorization: `Bearer ${key}` },
    { authorization: `bearer ${key}` },
    { 'x-service-api-key': key },
    { authorization: `Bearer ${key}`, 'x-service-api-key': key },
  ])
    expect((await service.api('GET', '/v1/account', undefined, { key: null, headers })).status).toBe(200)
})

/** Statuses of the public routes whose response to a request without query and body is not a 200. */
const STATUSES: Readonly<Record<string, number>> = {
  // Returns the sign-in page to browsers only; these requests do not come from one.
  'GET /': 404,
  // An unsubscribe link without its token.
  'GET /u': 404,
  // No operation, and no file of the bundle, has this name.
  'GET /docs/{operation}': 404,
  'GET /docs/integrations/{page}': 404,
  'GET /app/assets/{name}': 404,
  // No badge has this address.
  'GET /badges/{file}': 404,
  // Needs the cookie of a session.
  'GET /app/captured/{id}/html': 401,
  'GET /app/mail/{id}/html': 401,
  'GET /app/newsletters/{id}/html': 401,
  'GET /app/inbound/{id}/html': 401,
  'GET /app/inbound/mailboxes/{id}/messages/{message}/html': 401,
  'GET /app/previews/{id}': 401,
  'GET /app/wording/{place}': 401,
  'POST /billing/stripe': 400,
  // The hook of an API key, which it looks up itself; a request to it is signed.
  'GET /hooks/supabase': 401,
  'POST /hooks/supabase/{key}': 401,
  'POST /v1/auth/login': 422,
  'POST /v1/auth/passkeys/challenge': 409,
  'POST /v1/auth/passkeys/login': 422,
  'POST /login': 401,
  'POST /reset-password': 422,
  'GET /mailbox-files': 404,
  'GET /join': 410,
  'GET /setup': 410,
  'POST /join': 422,
  'POST /setup': 422,
  'GET /.well-known/acme-challenge/{token}': 404,
  'POST /oauth/register': 400,
  'POST /oauth/token': 400,
  'GET /oauth/authorize': 400,
  'GET /oauth/consent': 400,
  'POST /oauth/consent': 400,
}

test.each(PUBLIC_ROUTES)('%s needs no key and ignores a wrong one', async (route) => {
  const [method = '', path = ''] = route.split(' ')
  // A page below /t, /u, /confirm or /release needs a token or a host, one below /subscribe a form; without it it is a
  // 404, with or without a key. /billing/stripe requires a signature.
  const usual = method === 'OPTIONS' ? 204 : 200
  const status = /^\/(?:[tu]|subscribe|confirm|release)\//.test(path) ? 404 : (STATUSES[route] ?? usual)
  for (const headers of [
    {},
    { authorization: 'Bearer wrong' },
    { authorization: 'nonsense', 'x-service-api-key': 'x' },
  ])
    expect((await fetch(`${service.url}${path}`, { method, headers })).status).toBe(status)
})

test('an unknown path under /v1 is a 401 without credentials, so that it reveals nothing', async () => {
  for (const path of ['/v1/nothing', '/v1', '/v1/emails/x/y/z', '//v1/nothing'])
    expectUnauthorized(await service.api('GET', path, undefined, { key: null }))
})
