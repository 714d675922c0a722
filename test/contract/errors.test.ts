import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, UUID } from '#test/support/email-api.ts'
import { stripeSettings } from '#test/support/stripe-stub.ts'
import { PUBLIC_ROUTES, ROUTES, routeName, SESSION_ROUTES } from './routes.ts'

const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi({
    settings: {
      TASSIS_MAX_BODY_BYTES: '100000',
      TASSIS_SEND_BURST: '1',
      TASSIS_SEND_RATE_PER_SECOND: '1',
      // Stripe's page exists only with this setting. Nothing listens there.
      ...stripeSettings({ url: 'http://127.0.0.1:9' }),
    },
  })
})
afterAll(() => service[Symbol.asyncDispose]())

describe('every error status has a body of the same form', () => {
  // Proves: http-3, http-10, error-1, error-4, error-7, error-8, error-10
  test('400, 404, 409, 413, 415, 422', async () => {
    const { api, raw } = service
    expectError(await raw('/v1/emails', '{'), 400, 'invalid_json')
    expectError(await api('GET', `/v1/emails/${UNKNOWN}`), 404, 'email_not_found')
    expectError(await api('GET', '/v1/nothing'), 404, 'route_not_found')
    expectError(await api('GET', '/nothing', undefined, { key: null }), 404, 'route_not_found')
    expectError(await api('POST', '/v1/domains', { domain: 'sender.test' }), 409, 'domain_exists')
    expectError(await raw('/v1/emails', 'x'.repeat(100_001)), 413, 'payload_too_large')
    expectError(await raw('/v1/emails', '{}', { 'content-type': 'text/plain' }), 415, 'unsupported_media_type')
    expectError(await api('POST', '/v1/emails', { ...EMAIL, to: 1 }), 422, 'validation_failed', 'to')
  })

  // Proves: http-3
  test('404 suggests the route that was probably meant', async () => {
    const { message } = (await service.api('GET', '/v1/email')).body as { message: string }
    expect(message).toBe('No such route; did you mean /v1/emails? /docs describes all routes.')
    expect((await service.api('POST', `/v1/emails/${UNKNOWN}/cancle`)).body).toMatchObject({
      message: 'No such route; did you mean /v1/emails/{id}/cancel? /docs describes all routes.',
    })
    expect((await service.api('GET', '/v1/nothing')).body).toMatchObject({
      message: 'No such route; /docs describes all routes.',
    })
  })

  // Proves: error-9, error-14, quota-1
  test('429 states when to retry, in header and body', async () => {
    const free = await createTestAccount(service.app, 'free')
    await service.addDomain(free, 'free.test')
    const key = await service.newKey([], free)
    const send = () => service.send({ from: 'ada@free.test' }, { key })
    expect((await send()).status).toBe(202)
    expectError(await send(), 429, 'rate_limited')
  })

  // Proves: http-22, error-13, error-14
  test('503 states when to retry, in header and body', async () => {
    await using stopping = await createTestApp()
    const http = createHttp(stopping.opened, { isStopping: () => true })
    const response = await http.fetch(new Request('http://localhost/readyz'))
    const body = (await response.json()) as object
    expectError({ status: response.status, headers: response.headers, body }, 503, 'not_ready', 'service')
  })
})

describe('a wrong method', () => {
  const routes = [...ROUTES.map(routeName), ...SESSION_ROUTES, ...PUBLIC_ROUTES].map((name) => {
    const [method = '', path = ''] = name.split(' ')
    const pattern = path
      .replaceAll('.', '\\.')
      .replace('*', '.*')
      .replace(/\{\w+\}/g, '[^/]+')
    return { method, path, pattern: new RegExp(`^${pattern}$`) }
  })
  /** Includes the methods of `/v1/emails/{id}` for `/v1/emails/batch`. */
  const methodsAt = (path: string): string[] => {
    const methods = routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method)
    return [...new Set([...methods, ...(methods.includes('GET') ? ['HEAD'] : [])])].sort()
  }
  const paths = [...new Set(routes.map(({ path }) => path))].map((path) => [path, methodsAt(path)] as const)

  // Proves: http-4, error-1, error-10
  test.each(paths)('%s is a 405 with Allow: %p', async (path, allowed) => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PURGE'].filter((name) => !allowed.includes(name))) {
      const answer = await service.api(method, path.replace('{id}', UNKNOWN))
      const refusal = { code: 'method_not_allowed', message: expect.any(String), type: 'invalid_request' }
      expect({ status: answer.status, body: answer.body }).toEqual({
        status: 405,
        body: {
          error: { ...refusal, docs_url: null },
          ...refusal,
          request_id: answer.headers.get('x-request-id'),
        },
      })
      expect(at(answer.body, 'error', 'message')).toBe(at(answer.body, 'message'))
      expect(answer.headers.get('allow')).toBe(allowed.join(', '))
    }
  })
})

const API_ROUTES = [...ROUTES.map(routeName), ...SESSION_ROUTES, ...PUBLIC_ROUTES].flatMap((name) => {
  const [method = '', path = ''] = name.split(' ')
  return path.startsWith('/v1/') ? [[method, path.replace(/\{\w+\}/g, UNKNOWN)] as const] : []
})

// Proves: http-16
test.each(API_ROUTES)('%s %s rejects an unknown query parameter, and a repeated one', async (method, path) => {
  const refusal = await service.api(method, `${path}?no_such_parameter=bob@example.com`)
  // Routes for signed-in users reject the key first.
  if (refusal.status === 403) return expect(at(refusal.body, 'code')).toBe('session_required')
  expectError(refusal, 422, 'validation_failed', 'no_such_parameter')
  const message = String(at(refusal.body, 'message'))
  const [, known] = /; this endpoint takes (.+)\.$/.exec(message) ?? []
  const [first] = known?.split(', ') ?? []
  expect(first).toBeDefined()
  if (first !== undefined && first !== 'none')
    expectError(await service.api(method, `${path}?${first}=1&${first}=1`), 422, 'validation_failed', first)
})

// Proves: http-17
test.each([...new Set(API_ROUTES.map(([, path]) => path))])('OPTIONS %s is a 204 without a key', async (path) => {
  const answer = await service.api('OPTIONS', path, undefined, { key: null })
  expect([answer.status, answer.headers.get('allow')]).toEqual([204, expect.stringContaining('OPTIONS')])
})

describe('X-Request-Id', () => {
  const requests: [string, (headers: Record<string, string>) => Promise<ApiResponse>][] = [
    ['a success', (headers) => service.api('GET', '/v1/account', undefined, { headers })],
    ['a list', (headers) => service.api('GET', '/v1/emails', undefined, { headers })],
    ['a 202', (headers) => service.send({}, { headers })],
    [
      'a 204',
      async (headers) => {
        const id = at((await service.api('POST', '/v1/api-keys', { name: 'x' })).body, 'data', 'id')
        return service.api('DELETE', `/v1/api-keys/${id}`, undefined, { headers })
      },
    ],
    ['a 400', (headers) => service.raw('/v1/emails', '{', headers)],
    ['a 401', (headers) => service.api('GET', '/v1/account', undefined, { key: null, headers })],
    [
      'a 403',
      async (headers) =>
        service.api('GET', '/v1/account', undefined, { key: await service.newKey(['emails:read']), headers }),
    ],
    ['a 404', (headers) => service.api('GET', '/nothing', undefined, { headers })],
    ['a 405', (headers) => service.api('PUT', '/v1/account', undefined, { headers })],
    ['a 413', (headers) => service.raw('/v1/emails', 'x'.repeat(100_001), headers)],
    ['a 422', (headers) => service.api('POST', '/v1/emails', {}, { headers })],
    ['/healthz', (headers) => service.api('GET', '/healthz', undefined, { key: null, headers })],
    ['the description', (headers) => service.api('GET', '/openapi.json', undefined, { key: null, headers })],
  ]

  // Proves: http-5, error-2
  test.each(requests)('in %s is that of the request if it is valid, else a new one', async (_, ask) => {
    for (const sane of ['a', 'Job-7_of.2026', 'x'.repeat(128)]) {
      const answer = await ask({ 'x-request-id': sane })
      expect(answer.headers.get('x-request-id')).toBe(sane)
      if (answer.status >= 400) expect(at(answer.body, 'request_id')).toBe(sane)
    }
    const requestIds = new Set<string>()
    for (const headers of [{}, ...['a b', 'x'.repeat(129), '<a>'].map((id) => ({ 'x-request-id': id }))] as Record<
      string,
      string
    >[]) {
      const answer = await ask(headers)
      const id = answer.headers.get('x-request-id') ?? ''
      expect(id).toMatch(UUID)
      if (answer.status >= 400) expect(at(answer.body, 'request_id')).toBe(id)
      requestIds.add(id)
    }
    expect(requestIds.size).toBe(4)
  })
})
