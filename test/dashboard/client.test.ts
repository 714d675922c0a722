/** @module The client of the dashboard: keys and URLs of what is read, and what the page learns from responses. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { api, listenForForbidden, listenForSignOut, read, rememberCsrfToken } from '#dashboard/api/client.ts'

describe('a request that reads', () => {
  test('has a key of resource, method, ids and query, by which a change names it', () => {
    expect(read.webhooks.getDelivery('w1', 'd2').queryKey).toEqual(['webhooks', 'getDelivery', 'w1', 'd2'])
    expect(read.webhooks.countReplay('w1', { to_seq: 5 }).queryKey.slice(2)).toEqual(['w1', { to_seq: 5 }])
  })

  test('has 50 rows on a page unless it says otherwise, and no filter without a text', () => {
    const keys = [{ page: 2, search: '' }, undefined, { per_page: 9 }].map(
      (query) => read.templates.list(query).queryKey[2],
    )
    expect(keys).toEqual([{ per_page: '50', page: '2' }, { per_page: '50' }, { per_page: '9' }])
  })

  test('has a URL for links, which no id leaves', () => {
    expect(read.inboundEmails.getAttachment('../x', '0').url).toBe('/v1/inbound/..%2Fx/attachments/0')
    expect(read.analytics.export({ period: '7d' }).url).toBe('/v1/analytics/export?period=7d')
  })
})

describe('a response', () => {
  const received: string[] = []
  let answer = () => Response.json({ data: {} })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ method, url, headers }) {
      received.push(`${method} ${new URL(url).pathname} ${headers.get('x-csrf-token')}`)
      return answer()
    },
  })
  let target = server.url
  const heard: string[] = []
  const { fetch: global } = globalThis
  beforeAll(() => {
    // In a page, paths are relative to its origin.
    const toServer = (path: string | URL | Request, init?: RequestInit) => global(new URL(`${path}`, target), init)
    globalThis.fetch = Object.assign(toServer, { preconnect: global.preconnect })
    listenForSignOut(() => heard.push('signed out'))
    listenForForbidden(() => heard.push('forbidden'))
    rememberCsrfToken('token')
  })
  beforeEach(() => {
    target = server.url
    answer = () => Response.json({ data: {} })
    received.length = 0
  })
  afterAll(async () => {
    globalThis.fetch = global
    listenForSignOut(() => undefined)
    listenForForbidden(() => undefined)
    rememberCsrfToken('')
    await server.stop(true)
  })

  /** The error of a request, and what the page heard of it. */
  const errorOf = async (request: PromiseLike<unknown>) =>
    await request.then(undefined, (error: unknown) => ({ error, heard: heard.splice(0) }))
  const failWith = (status: number, code: string) => {
    answer = () => Response.json({ code, message: 'No.' }, { status })
  }

  test('to a change had the token of the session, to a read it had none', async () => {
    await api.domains.verify('d1')
    await read.domains.get('d1').queryFn({ signal: new AbortController().signal })
    expect(received).toEqual(['POST /v1/domains/d1/verify token', 'GET /v1/domains/d1 null'])
  })

  test('401 says that the session ended, except that of the sign-in itself', async () => {
    failWith(401, 'unauthorized')
    const message = 'Your session had ended. Sign in again, then repeat this.'
    expect(await errorOf(api.domains.list())).toMatchObject({ error: { message }, heard: ['signed out'] })
    expect(await errorOf(api.auth.login({ email: 'a@b.test', password: 'x' }))).toMatchObject({ heard: [] })
  })

  test('403 to a change tells that the role may be another, but not when only the password is too old', async () => {
    failWith(403, 'role_required')
    expect(await errorOf(api.domains.list())).toMatchObject({ heard: [] })
    expect(await errorOf(api.domains.verify('d1'))).toMatchObject({ heard: ['forbidden'] })
    failWith(403, 'password_required')
    expect(await errorOf(api.webhooks.revealSecret('w1'))).toMatchObject({
      error: { code: 'password_required' },
      heard: [],
    })
  })

  test('that is an error or does not come is asked for once', async () => {
    failWith(503, 'unavailable')
    expect(await errorOf(api.domains.list())).toMatchObject({ error: { status: 503 } })
    expect(received).toHaveLength(1)
    const gone = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => Response.json({}) })
    target = gone.url
    await gone.stop(true)
    expect(await errorOf(api.domains.list())).toMatchObject({ error: { message: 'The server cannot be reached.' } })
  })
})
