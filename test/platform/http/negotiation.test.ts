import { afterAll, describe, expect, test } from 'bun:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Elysia } from 'elysia'
import { requires } from '#platform/http/access.ts'
import { BOX_ID, boxRoutes, startTestServer } from './fixture.ts'

const KEY = { authorization: 'Bearer tassis_live_writer' }
const LISTED = 'https://app.example.com'
const LARGE = { data: 'tassis '.repeat(2_000) }

const largeRoutes = () =>
  new Elysia({ prefix: '/v1/large' })
    .get('/', () => LARGE, { detail: requires('boxes:read') })
    .post('/', ({ status }) => status(202, { data: [LARGE.data] }), { detail: requires('boxes:write') })
    .get('/file', () => Response.json(LARGE, { headers: { 'content-disposition': 'attachment' } }), {
      detail: requires('boxes:read'),
    })

const server = startTestServer({ routes: [boxRoutes(), largeRoutes()], corsOrigins: [LISTED] })
afterAll(() => server[Symbol.asyncDispose]())

describe('compression', () => {
  test.each([
    ['br', 'br', brotliDecompressSync],
    ['gzip, deflate', 'gzip', gunzipSync],
    ['gzip;q=0.5, br;q=0.9', 'br', brotliDecompressSync],
    ['gzip, br;q=0', 'gzip', gunzipSync],
  ] as const)('of JSON for Accept-Encoding: %s is %s', async (accepted, encoding, decode) => {
    const response = await server.request('/v1/large', {
      headers: { ...KEY, 'accept-encoding': accepted },
      decompress: false,
    } as RequestInit)
    expect([response.headers.get('content-encoding'), response.headers.get('vary')]).toEqual([
      encoding,
      'Accept-Encoding',
    ])
    const bytes = await response.bytes()
    expect(bytes.length).toBeLessThan(1_000)
    expect(JSON.parse(decode(bytes).toString())).toEqual(LARGE)
  })

  test('of a list after a POST keeps its status, and gives it no entity tag', async () => {
    const response = await server.request('/v1/large', {
      method: 'POST',
      headers: { ...KEY, 'accept-encoding': 'br' },
      decompress: false,
    } as RequestInit)
    expect([response.status, response.headers.get('content-encoding'), response.headers.get('etag')]).toEqual([
      202,
      'br',
      null,
    ])
    expect(JSON.parse(brotliDecompressSync(await response.bytes()).toString())).toEqual({ data: [LARGE.data] })
  })

  test.each([
    ['without Accept-Encoding', '/v1/large', 'identity'],
    ['of an encoding that is refused', '/v1/large', 'br;q=0, gzip;q=0.0'],
    ['of a short response', '/v1/boxes', 'br, gzip'],
    ['of a download', '/v1/large/file', 'br, gzip'],
  ])('%s is none', async (_, path, accepted) => {
    const response = await server.request(path, { headers: { ...KEY, 'accept-encoding': accepted } })
    expect([response.status, response.headers.get('content-encoding')]).toEqual([200, null])
    expect(await response.json()).toBeObject()
  })
})

test('a GET has an entity tag, and is a 304 without body for who has it', async () => {
  const first = await server.request(`/v1/boxes/${BOX_ID}`)
  const tag = first.headers.get('etag') ?? ''
  expect(tag).toMatch(/^W\/"\w+"$/)
  const again = await server.request(`/v1/boxes/${BOX_ID}`, { headers: { ...KEY, 'if-none-match': `"x", ${tag}` } })
  expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag])
  const other = await server.request('/v1/large', { headers: { ...KEY, 'if-none-match': tag } })
  expect(other.status).toBe(200)
})

test('a 201 has the path of what was created', async () => {
  const response = await server.request('/v1/boxes', { method: 'POST', body: JSON.stringify({ label: 'a' }) })
  expect([response.status, response.headers.get('location')]).toEqual([201, `/v1/boxes/${BOX_ID}`])
})

describe('a page of another origin', () => {
  test('that is listed may send what the API takes', async () => {
    const preflight = await server.request('/v1/boxes', {
      method: 'OPTIONS',
      headers: {
        origin: LISTED,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    })
    expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([204, LISTED])
    expect(preflight.headers.get('access-control-allow-methods')).toContain('POST')
    expect(preflight.headers.get('access-control-allow-headers')).toContain('authorization')
    expect(preflight.headers.get('access-control-allow-credentials')).toBeNull()
    const response = await server.request('/v1/boxes', { headers: { ...KEY, origin: LISTED } })
    expect([response.status, response.headers.get('access-control-allow-origin')]).toEqual([200, LISTED])
    const refused = await server.request('/v1/boxes', { headers: { origin: LISTED } })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, LISTED])
  })

  test.each([
    ['another origin', 'https://evil.example'],
    ['a name that ends alike', 'https://evil-app.example.com'],
    ['no origin', 'null'],
  ])('of %s gets no permission', async (_, origin) => {
    const headers = { ...KEY, origin, 'access-control-request-method': 'POST' }
    for (const method of ['OPTIONS', 'GET']) {
      const response = await server.request('/v1/boxes', { method, headers })
      expect(response.headers.get('access-control-allow-origin')).toBeNull()
    }
  })
})
