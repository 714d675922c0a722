/** @module What the client does about lost, late and strange responses, and its lists, against a real service. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Tassis, TassisError, type TassisOptions } from '#client/index.ts'
import { createEmailApi, EMAIL, type EmailApi } from '#test/support/email-api.ts'
import { type Behaviour, type Gateway, startGateway } from './gateway.ts'

let service: EmailApi
let gateway: Gateway
beforeAll(async () => {
  service = await createEmailApi()
  gateway = await startGateway(service.url)
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const connect = (options: Partial<TassisOptions> = {}): Tassis =>
  new Tassis({ url: gateway.url, key: service.key, ...options })
const errorOf = async (promise: PromiseLike<unknown>): Promise<TassisError> => {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof TassisError) return error
  throw new Error(`not a TassisError: ${error}`)
}
const BUSY: Behaviour = { status: 503 }

describe('a request is repeated', () => {
  test.each<[string, ...Behaviour[]]>([
    ['whose response was lost after it was accepted', 'lose'],
    ['whose response was lost twice', 'lose', 'lose'],
    ['whose response was cut', 'truncate'],
    ['that a proxy answered with a 503', BUSY],
  ])('%s, and sends one email', async (subject, ...behaviours) => {
    gateway.plan(...behaviours)
    const { data } = await connect().emails.send({ ...EMAIL, subject })
    expect(gateway.requests.map(({ method, path }) => `${method} ${path}`)).toEqual(
      Array(behaviours.length + 1).fill('POST /v1/emails'),
    )
    expect(new Set(gateway.requests.map(({ key }) => key)).size).toBe(1)
    const { data: emails } = await connect().emails.list({ subject })
    expect(emails.map(({ id }) => id)).toEqual([data.id])
  })

  test('after a 429 also where a second one would have an effect, and after Retry-After', async () => {
    gateway.plan({ status: 429, headers: { 'retry-after': '1' } })
    const domain = (await connect().domains.list()).data[0]?.id ?? ''
    gateway.plan({ status: 429, headers: { 'retry-after': '1' } })
    const startedAt = performance.now()
    expect((await connect().domains.rotateDkim(domain)).data.id).toBe(domain)
    expect([gateway.requests.length, performance.now() - startedAt >= 990]).toEqual([2, true])
  })

  test('not if that can have a second effect, and then the error says what happened', async () => {
    const domain = (await connect().domains.list()).data[0]?.id ?? ''
    for (const [behaviour, expected] of [
      ['lose', { status: 0, code: 'no_connection' }],
      [BUSY, { status: 503, code: 'unknown' }],
    ] as const) {
      gateway.plan(behaviour)
      expect(await errorOf(connect().domains.rotateDkim(domain))).toMatchObject(expected)
      expect(gateway.requests.length).toBe(1)
    }
  })

  test('not more often than the client may, not after a refusal, and not after a Retry-After of minutes', async () => {
    gateway.plan(BUSY, BUSY, BUSY)
    expect((await errorOf(connect({ retries: 1 }).domains.list())).status).toBe(503)
    expect(gateway.requests.length).toBe(2)
    gateway.plan({ status: 404 }, 'serve')
    expect((await errorOf(connect().domains.list())).status).toBe(404)
    const later = new Date(Date.now() + 600_000).toUTCString()
    for (const retryAfter of ['31', later]) {
      gateway.plan({ status: 429, headers: { 'retry-after': retryAfter } })
      expect((await errorOf(connect().domains.list())).retryAfter).toBeGreaterThan(30)
      expect(gateway.requests.length).toBe(1)
    }
  })
})

test('the idempotency key of the caller is that of the request, wherever it is', async () => {
  const { emails } = connect()
  for (const send of [
    () => emails.send({ ...EMAIL, idempotency_key: 'order-1' }),
    () => emails.send(EMAIL, { idempotencyKey: 'order-1', headers: { 'X-Trace': '1' } }),
  ]) {
    gateway.plan()
    const { data } = await send()
    expect(gateway.requests.map(({ key }) => key)).toEqual(['order-1'])
    expect((await emails.get(data.id)).data.idempotency_key).toBe('order-1')
  }
})

test('a signal ends a request, and the wait before its next attempt', async () => {
  const waits: Behaviour = { status: 503, headers: { 'retry-after': '20' } }
  for (const behaviour of ['hang', waits] as const) {
    gateway.plan(behaviour)
    const abort = new AbortController()
    const list = connect().domains.list({}, { signal: abort.signal })
    const ended = list.then(
      () => 'done',
      (reason: unknown) => reason,
    )
    while (gateway.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
    abort.abort('enough')
    expect(await ended).toBe('enough')
    expect(gateway.requests.length).toBe(1)
  }
  gateway.plan()
  expect(
    connect()
      .domains.list({}, { signal: AbortSignal.abort('never') })
      .then(),
  ).rejects.toBe('never')
})

test('an attempt has a time limit, of a download only until it begins', async () => {
  gateway.plan('hang', 'hang')
  const error = await errorOf(connect({ retries: 1, timeoutMs: 50 }).domains.list())
  expect([error.code, error.message, gateway.requests.length]).toEqual([
    'timeout',
    'There was no response within 0.05 seconds.',
    2,
  ])
  gateway.plan('hang', 'serve')
  const slow = connect({ retries: 0 })
  expect((await errorOf(slow.domains.list({}, { timeoutMs: 20 }))).code).toBe('timeout')
  let signal: AbortSignal | null | undefined
  const watched = connect({
    timeoutMs: 500,
    fetch: (url, init) => {
      signal = init.signal
      return fetch(url, init)
    },
  })
  const download = await watched.suppressions.export()
  gateway.plan('hang')
  await errorOf(slow.domains.list({}, { timeoutMs: 500 }))
  expect([signal?.aborted, await download.text()]).toEqual([false, expect.stringContaining('email_address')])
})

test('what is no response of the service is an error that says so', async () => {
  const { domains } = connect({ retries: 0 })
  gateway.plan({ status: 200, body: '<html>' })
  expect(await errorOf(domains.list())).toMatchObject({ code: 'invalid_response', status: 200 })
  gateway.plan({ status: 301, headers: { location: 'https://mail.example.com/v1/domains' } })
  expect((await errorOf(connect().emails.send(EMAIL))).message).toContain('redirects to https://mail.example.com')
  expect(gateway.requests.length).toBe(1)
  gateway.plan({ status: 502, body: '"Bad gateway"', headers: { 'x-request-id': 'r-1' } })
  expect(await errorOf(domains.list())).toMatchObject({ status: 502, code: 'unknown', requestId: 'r-1' })
  const nowhere = new Tassis({ url: 'http://127.0.0.1:9', retries: 0 })
  expect((await errorOf(nowhere.domains.list())).code).toBe('no_connection')
})

test('an error has code, fields, and the id that the log of the service has', async () => {
  const error = await errorOf(connect().emails.send({ ...EMAIL, to: 'nobody' }))
  expect(error).toMatchObject({ status: 422, code: 'invalid_address', details: [{ field: 'to' }] })
  expect(error.requestId).toMatch(/^[0-9a-f-]{36}$/)
  expect((await errorOf(connect({ key: 'wrong' }).emails.get('x'))).status).toBe(401)
})

test('a list is one page, all pages, or all rows', async () => {
  const { streams, events } = connect()
  for (const slug of ['one', 'two', 'three']) await streams.create({ slug, name: slug })
  const all = (await streams.list()).data.map(({ slug }) => slug)
  expect(all.length).toBe(4)
  const list = streams.list({ per_page: 3 })
  expect((await list).data.length).toBe(3)
  const rows = await Array.fromAsync(list)
  expect(rows.map(({ slug }) => slug)).toEqual(all)
  expect((await Array.fromAsync(list.pages())).map(({ data }) => data.length)).toEqual([3, 1])

  for (let count = 0; count < 3; count++) await service.accepted({ send_at: '2026-03-16T00:00:00Z' })
  const positions = async (query: Parameters<typeof events.list>[0]) =>
    (await Array.fromAsync(events.list(query))).map(({ seq }) => seq)
  const forwards = await positions({})
  expect(forwards.length).toBeGreaterThan(3)
  expect(await positions({ limit: 2 })).toEqual(forwards)
  expect(await positions({ limit: 2, order: 'newest' })).toEqual(forwards.toReversed())
  const scheduled = (await events.list({ types: 'scheduled' })).data.map(({ seq }) => seq)
  expect(await positions({ limit: 1, types: 'scheduled' })).toEqual(scheduled)
  expect(await positions({ after: 'latest' })).toEqual([])
})

test('an id cannot lead to another route, and a URL must be one', async () => {
  const { contactLists, emails } = connect()
  const list = (await contactLists.create({ name: 'All' })).data.id
  await contactLists.addContacts(list, { email: 'a/b?c@receiver.test' })
  expect((await contactLists.getContact(list, 'a/b?c@receiver.test')).data.email).toBe('a/b?c@receiver.test')
  for (const id of ['', '..', undefined as unknown as string]) expect(() => emails.get(id)).toThrow('is not an id')
  for (const url of ['mail.example.com', 'ftp://mail.example.com']) expect(() => new Tassis({ url })).toThrow(TypeError)
  expect(await connect({ url: `${gateway.url}/` }).contactLists.delete(list)).toBeUndefined()
})
