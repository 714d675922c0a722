import { afterAll, describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { requires } from '#platform/http/access.ts'
import { authenticatedAs } from '#platform/http/request-context.ts'
import { BOX_ID, startTestServer, type TestActor } from './fixture.ts'

const WRITER = 'tassis_live_writer'
const READER = 'tassis_live_reader'

const statusAndCode = async (response: Response) => {
  const body = (await response.json()) as { code: string }
  return [response.status, body.code]
}

const server = startTestServer()
afterAll(() => server[Symbol.asyncDispose]())

describe('authentication', () => {
  test.each<[string, Record<string, string>, number]>([
    ['Basic beside X-Service-Api-Key', { authorization: 'Basic YTpi', 'x-service-api-key': WRITER }, 200],
    ['a Bearer without key beside a good key', { authorization: 'Bearer', 'x-service-api-key': WRITER }, 401],
    ['a key with a space', { 'x-service-api-key': `${WRITER} x` }, 401],
    ['an overlong key', { 'x-service-api-key': 'k'.repeat(600) }, 401],
  ])('%s', async (_, headers, status) => {
    expect((await server.request('/v1/boxes', { headers })).status).toBe(status)
  })

  test.each<[string, Record<string, string>, string]>([
    ['without the word Bearer', { authorization: WRITER }, 'the word Bearer, a space and the API key'],
    [
      'with another one in X-Service-Api-Key',
      { authorization: `Bearer ${WRITER}`, 'x-service-api-key': READER },
      'Authorization and X-Service-Api-Key have different keys',
    ],
    [
      'that is unknown',
      { authorization: 'Bearer tassis_live_nobody' },
      'error="invalid_token", error_description="This API key is unknown or was revoked; `tassis keys list`',
    ],
    [
      'of Resend',
      { authorization: 'Bearer re_123456789' },
      'error="invalid_token", error_description="This looks like a key of Resend. ',
    ],
    [
      'of Postmark',
      { 'x-service-api-key': '01234567-89ab-cdef-0123-456789abcdef' },
      'a key of Postmark. This service has keys of its own: `tassis keys create --name app` or the dashboard',
    ],
  ])('a key %s: WWW-Authenticate says so, since the body of a 401 is fixed', async (_, headers, words) => {
    const response = await server.request('/v1/boxes', { headers })
    expect(response.headers.get('www-authenticate')).toContain(words)
    expect(await response.json()).toMatchObject({ message: 'Invalid API key' })
  })

  // Proves: auth-14
  test('is checked before anything else in a request', async () => {
    await using server = startTestServer({ maxBodyBytes: 100 })
    const wrong: [string, RequestInit][] = [
      ['/v1/boxes', { method: 'POST', body: '{', headers: {} }],
      ['/v1/boxes', { method: 'POST', body: 'x'.repeat(1000), headers: {} }],
      ['/v1/boxes', { method: 'PUT', headers: {} }],
      ['/v1/boxes?page=0', { headers: {} }],
      ['/v1/nothing', { headers: {} }],
      ['/v1', { headers: {} }],
      ['//v1/boxes', { headers: {} }],
      ['/v1/boxes?colour=red', { headers: {} }],
    ]
    for (const [path, init] of wrong) expect((await server.request(path, init)).status).toBe(401)
  })

  test('ignores keys on a public route, but not on its neighbours and other methods', async () => {
    const nonsense = { authorization: 'Bearer nonsense' }
    expect((await server.request('/v1/plans', { headers: {} })).status).toBe(200)
    expect((await server.request('/v1/plans/', { headers: nonsense })).status).toBe(200)
    expect((await server.request('/v1/plans', { method: 'HEAD', headers: nonsense })).status).toBe(200)
    expect((await server.request('/v1/plans', { method: 'POST', headers: nonsense })).status).toBe(401)
    expect((await server.request('/v1/plans/x', { headers: {} })).status).toBe(401)
    expect((await server.request('/v1/%70lans', { headers: {} })).status).toBe(401)
  })

  test('is required: a route under /v1 without declared access stops the start', () => {
    const forgotten = new Elysia().get('/v1/forgotten', () => 'secret')
    expect(() => startTestServer({ routes: [forgotten] })).toThrow('GET /v1/forgotten')
  })

  test('fails closed for a handler that needs an actor on a public page', async () => {
    const page = new Elysia().use(authenticatedAs<TestActor>()).get('/who', ({ actor }) => actor.name)
    await using server = startTestServer({ routes: [page] })
    expect((await server.request('/who')).status).toBe(401)
  })

  test('cannot be declared on a page, because access to pages is not checked', () => {
    const page = new Elysia().get('/page', () => 'secret', { detail: requires('boxes:read') })
    expect(() => startTestServer({ routes: [page] })).toThrow('under /v1')
  })
})

describe('routing', () => {
  test('a path may begin with several slashes, and end with one', async () => {
    for (const path of ['//v1/boxes', '///v1/boxes', '/v1/boxes/', '//v1/boxes?page=2'])
      expect((await server.request(path)).status).toBe(200)
    const made = await server.request('//v1/boxes', { method: 'POST', body: '{"label":"x"}' })
    expect(made.status).toBe(201)
  })

  test('HEAD responds like GET, without the body', async () => {
    const get = await server.request('/v1/boxes')
    const head = await server.request('/v1/boxes', { method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(await head.text()).toBe('')
    expect(head.headers.get('content-length')).toBe(String((await get.text()).length))
  })

  // Proves: http-12
  test('an invalid UUID, however encoded, is the 404 of an unknown id', async () => {
    const unknown = await server.request('/v1/boxes/01234567-89ab-7def-8123-000000000000')
    expect(await statusAndCode(unknown)).toEqual([404, 'box_not_found'])
    for (const id of ['1', 'x'.repeat(500), '%00', '%zz', '%ff', "'--", `${BOX_ID}x`]) {
      expect(await statusAndCode(await server.request(`/v1/boxes/${id}`))).toEqual([404, 'box_not_found'])
    }
  })
})

test('a path segment that is not UTF-8 is an empty text to the handler, all others are unchanged', async () => {
  const echo = async (segment: string) => (await server.request(`/said/${segment}`)).json()
  expect([await echo('%ff'), await echo('%E0%A4%A'), await echo('%C3%A9'), await echo('null')]).toEqual([
    { text: '' },
    { text: '' },
    { text: 'é' },
    { text: 'null' },
  ])
})

describe('headers of every response', () => {
  const paths = ['/v1/boxes', '/v1/nothing', '/v1/faults/thrown', '/v1/faults/null', '/healthz', '/page', '/nothing']

  // Proves: http-8
  test.each([
    [true, 'max-age=31536000'],
    [false, null],
  ])('include Strict-Transport-Security when clients use https: %p', async (isHttps, expected) => {
    await using server = startTestServer({ isHttps })
    for (const path of [...paths, '/v1/boxes/x/%ff/']) {
      const value = (await server.request(path)).headers.get('strict-transport-security')
      expect([path, value]).toEqual([path, expected])
    }
  })

  test('forbid sniffing, and caching of the API', async () => {
    for (const path of paths) {
      const response = await server.request(path)
      expect(response.headers.get('x-content-type-options') ?? path).toBe('nosniff')
      if (path.startsWith('/v1/')) expect(response.headers.get('cache-control')).toBe('no-store')
    }
  })
})

describe('internal errors', () => {
  // Proves: error-13, error-15
  test.each(['thrown', 'rejected', 'null', 'shape'])(
    '%s: the client gets a fixed sentence, the log the cause with the same id, but no value',
    async (fault) => {
      await using server = startTestServer()
      const response = await server.request(`/v1/faults/${fault}`)
      expect(response.status).toBe(500)
      const requestId = response.headers.get('x-request-id')
      const error = {
        code: 'internal_error',
        message: 'Internal error; quote the request id when you report it.',
        type: 'server_error',
      }
      expect(await response.json()).toEqual({
        error: { ...error, docs_url: null },
        ...error,
        request_id: requestId,
      })
      const logged = Bun.inspect(server.log)
      expect(logged).not.toContain('topsecret')
      expect(server.log).toMatchObject([{ level: 'error', context: { requestId, err: expect.anything() } }])
      if (fault === 'shape') expect(logged).toContain('/count')
    },
  )

  test('fields that a response schema does not declare are never sent', async () => {
    const made = await server.request('/v1/boxes', { method: 'POST', body: '{"label":"new","note":"x"}' })
    expect(await made.json()).toEqual({ data: { id: BOX_ID, label: 'new of writer' } })
    const read = await server.request(`/v1/boxes/${BOX_ID}`)
    expect(await read.json()).toEqual({ data: { id: BOX_ID, label: 'first', note: null } })
    const listed = await server.request('/v1/boxes?per_page=5')
    expect(await listed.json()).toEqual({
      data: [{ id: BOX_ID, label: 'first', note: null }],
      pagination: { page: 1, per_page: 5, total: 1, total_pages: 1 },
    })
  })
})

describe('input', () => {
  test.each([
    ...['page=0', 'page=-1', 'page=1.5', 'page=1e3', 'page=', 'page=abc', 'page=%201', 'page=+1'],
    ...['page=9999999999999999', 'per_page=0', 'per_page=101', 'per_page=abc', 'per_page=', 'kind=steel'],
  ])('?%s is a 422 on that field', async (query) => {
    const response = await server.request(`/v1/boxes?${query}`)
    expect(response.status).toBe(422)
    expect(await response.json()).toMatchObject({
      code: 'validation_failed',
      details: [{ field: query.slice(0, query.indexOf('=')), message: expect.stringMatching(/^must be /) }],
    })
  })

  // Proves: http-16
  test.each([
    ['GET', '/v1/boxes?page=1&utm=topsecret', 'utm', /this endpoint takes page, per_page, cursor, kind\.$/],
    ['HEAD', '/v1/boxes?utm=topsecret', 'utm', /./],
    ['GET', '/v1/boxes?%75tm=topsecret', 'utm', /is not a known query parameter/],
    ['GET', '/v1/boxes?=topsecret', 'query', /is not a known query parameter/],
    ['GET', '/v1/boxes?kind=paper&kind=topsecret', 'kind', /^kind must be given only once\.$/],
    ['POST', '/v1/boxes?kind=topsecret', 'kind', /this endpoint takes none\.$/],
    ['GET', `/v1/boxes/${BOX_ID}?expand=topsecret`, 'expand', /this endpoint takes none\.$/],
    ['GET', '/v1/plans?x=topsecret', 'x', /this endpoint takes none\.$/],
  ])(
    '%s %s is a 422 that names the parameter and the known ones, but no value',
    async (method, path, field, message) => {
      const response = await server.request(path, { method, ...(method === 'POST' && { body: '{"label":"x"}' }) })
      expect(response.status).toBe(422)
      const text = await response.text()
      if (method === 'HEAD') return
      expect(text).not.toContain('topsecret')
      expect(JSON.parse(text)).toMatchObject({ code: 'validation_failed', details: [{ field }] })
      expect((JSON.parse(text) as { message: string }).message).toMatch(message)
    },
  )

  // Proves: http-16
  test('names at most 20 unknown parameters, truncated', async () => {
    const query = Array.from({ length: 40 }, (_, i) => `${i}${'x'.repeat(200)}=1`).join('&')
    const { details } = (await (await server.request(`/v1/boxes?${query}`)).json()) as {
      details: { field: string }[]
    }
    expect([details.length, Math.max(...details.map(({ field }) => field.length))]).toEqual([20, 129])
  })

  // Proves: http-16
  test('may have any parameter on a page outside of /v1, since mail programs add parameters to links', async () => {
    const page = new Elysia().get('/page', ({ query }) => String(query['a']), {
      query: Type.Object({ a: Type.Optional(Type.String()) }),
    })
    await using server = startTestServer({ routes: [page] })
    const response = await server.request('/page?a=1&utm_source=mail', { headers: {} })
    expect([response.status, await response.text()]).toEqual([200, '1'])
  })

  // Proves: error-3
  test('with a wrong body is a 422 that names every field and no value', async () => {
    const body = { count: '5', to: [1], items: [{ nam: 'topsecret' }], extra: 'topsecret', kind: 'topsecret', note: 1 }
    const response = await server.request('/v1/boxes', { method: 'POST', body: JSON.stringify(body) })
    const text = await response.text()
    expect(text).not.toContain('topsecret')
    expect(response.status).toBe(422)
    const { details, message, type } = JSON.parse(text)
    expect(details.toSorted((a: { field: string }, b: { field: string }) => (a.field < b.field ? -1 : 1))).toEqual([
      { field: 'count', message: 'must be a whole number' },
      { field: 'extra', message: 'is not a known field' },
      { field: 'items.0.nam', message: 'is not a known field' },
      { field: 'items.0.name', message: 'is required' },
      { field: 'kind', message: 'must be one of paper, wood' },
      { field: 'label', message: 'is required' },
      { field: 'note', message: 'must be a string or null' },
      { field: 'to.0', message: 'must be a string' },
    ])
    expect([message, type]).toEqual(['label is required (and 7 more fields, see details).', 'validation_error'])
  })

  test("has the client's address from X-Forwarded-For only behind a trusted proxy", async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9, 198.51.100.7' }
    expect(await (await server.request('/address', { headers })).text()).toBe('127.0.0.1')
    await using proxied = startTestServer({ trustedProxies: ['127.0.0.0/8'] })
    expect(await (await proxied.request('/address', { headers })).text()).toBe('198.51.100.7')
    expect(await (await proxied.request('//address', { headers })).text()).toBe('198.51.100.7')
  })

  test('may be a form on pages, but not in the API', async () => {
    const multipart = new FormData()
    multipart.set('email', '<a@example.com>')
    for (const body of [new URLSearchParams({ email: '<a@example.com>' }), multipart]) {
      const response = await server.request('/page', { method: 'POST', body, headers: {} })
      expect([response.status, await response.text()]).toEqual([200, '<p>&lt;a@example.com&gt;</p>'])
    }
    const headers = { authorization: `Bearer ${WRITER}` }
    const refused = await server.request('/v1/boxes', {
      method: 'POST',
      body: new URLSearchParams({ label: 'x' }),
      headers,
    })
    expect(await statusAndCode(refused)).toEqual([415, 'unsupported_media_type'])
  })
})
