/** @module The client of the dashboard: keys and URLs of what is read, and what the page learns from responses. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { TassisError } from '#client/client.ts'
import { api, listenForForbidden, listenForSignOut, read, rememberCsrfToken } from '#dashboard/api/client.ts'

describe('a request that reads', () => {
  test('has a key of resource, method, ids and query, by which a change names it', () => {
    expect(read.domains.get('d1').queryKey).toEqual(['domains', 'get', 'd1'])
    expect(read.webhooks.getDelivery('w1', 'd2').queryKey).toEqual(['webhooks', 'getDelivery', 'w1', 'd2'])
    expect(read.account.get().queryKey).toEqual(['account', 'get'])
    const range = { from: '2026-01-01T00:00:00Z' }
    expect(read.webhooks.countReplay('w1', range).queryKey).toEqual(['webhooks', 'countReplay', 'w1', range])
  })

  test('has 50 rows on a page unless it says otherwise, and no filter without a text', () => {
    expect(read.templates.list({ page: 2, search: '' }).queryKey).toEqual([
      'templates',
      'list',
      { per_page: '50', page: '2' },
    ])
    expect(read.domains.list().queryKey).toEqual(['domains', 'list', { per_page: '50' }])
    expect(read.domains.list({ per_page: 100 }).queryKey).toEqual(['domains', 'list', { per_page: '100' }])
  })

  test('has a URL for links, which no id leaves', () => {
    expect(read.inboundEmails.getAttachment('../x', '0').url).toBe('/v1/inbound/..%2Fx/attachments/0')
    expect(read.analytics.export({ period: '7d' }).url).toBe('/v1/analytics/export?period=7d')
    expect(read.suppressions.export().url).toBe('/v1/suppressions/export')
  })
})

describe('a response', () => {
  const received: { readonly path: string; readonly csrf: string | null }[] = []
  let answer = () => new Response()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      const { pathname, search } = new URL(request.url)
      received.push({ path: `${request.method} ${pathname}${search}`, csrf: request.headers.get('x-csrf-token') })
      return answer()
    },
  })
  // In a page, paths are relative to its origin.
  const { fetch: global } = globalThis
  beforeAll(() => {
    const toServer = (path: string | URL | Request, init?: RequestInit) =>
      global(new URL(String(path), server.url), init)
    globalThis.fetch = Object.assign(toServer, { preconnect: global.preconnect })
  })
  const heard: string[] = []
  listenForSignOut(() => heard.push('signed out'))
  listenForForbidden(() => heard.push('forbidden'))
  afterEach(() => {
    received.length = 0
    heard.length = 0
  })
  afterAll(async () => {
    globalThis.fetch = global
    listenForSignOut(() => undefined)
    listenForForbidden(() => undefined)
    rememberCsrfToken('')
    await server.stop(true)
  })

  const failWith = (status: number, code: string) => {
    answer = () => Response.json({ code, message: 'No.', request_id: 'r1' }, { status })
  }
  const errorOf = (request: PromiseLike<unknown>) => Promise.resolve(request).catch((error: unknown) => error)

  test('to a change had the token of the session, to a read it had none', async () => {
    rememberCsrfToken('token')
    answer = () => Response.json({ data: { id: 'd1' } })
    await api.domains.verify('d1')
    const { signal } = new AbortController()
    expect(await read.domains.get('d1').queryFn({ signal })).toEqual({ data: { id: 'd1' } } as never)
    expect(received).toEqual([
      { path: 'POST /v1/domains/d1/verify', csrf: 'token' },
      { path: 'GET /v1/domains/d1', csrf: null },
    ])
  })

  test('401 says that the session ended, except that of the sign-in itself', async () => {
    failWith(401, 'unauthorized')
    expect(await errorOf(api.domains.list())).toMatchObject({
      status: 401,
      code: 'unauthorized',
      message: 'Your session had ended. Sign in again, then repeat this.',
    })
    expect(heard.splice(0)).toEqual(['signed out'])
    expect(await errorOf(api.auth.login({ email: 'a@example.com', password: 'x' }))).toMatchObject({ message: 'No.' })
    expect(heard).toEqual([])
  })

  test('403 to a change tells that the role may be another, but not when only the password is too old', async () => {
    failWith(403, 'role_required')
    await errorOf(api.domains.list())
    expect(heard).toEqual([])
    await errorOf(api.domains.verify('d1'))
    expect(heard.splice(0)).toEqual(['forbidden'])
    failWith(403, 'password_required')
    expect(await errorOf(api.webhooks.revealSecret('w1'))).toMatchObject({ code: 'password_required', message: 'No.' })
    expect(heard).toEqual([])
  })

  test('that does not come is an error of one attempt, in words of the page; one that was aborted is none', async () => {
    failWith(503, 'unavailable')
    expect(await errorOf(api.domains.list())).toMatchObject({ status: 503, requestId: 'r1' })
    expect(received).toHaveLength(1)
    const ending = new AbortController()
    answer = () => {
      ending.abort()
      return new Response('{}')
    }
    expect(await errorOf(api.domains.list({}, { signal: ending.signal }))).toMatchObject({ name: 'AbortError' })
    await server.stop(true)
    const lost = await errorOf(api.domains.list())
    expect(lost).toBeInstanceOf(TassisError)
    expect(lost).toMatchObject({ status: 0, message: 'The server cannot be reached.' })
  })
})
