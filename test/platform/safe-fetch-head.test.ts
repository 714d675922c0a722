import { expect, test } from 'bun:test'
import { SafeFetch, type SafeFetchOptions } from '#platform/net/safe-fetch.ts'
import { systemClock } from '#platform/time/clock.ts'
import { startHttpsReceiver } from '#test/support/https-receiver.ts'

const createFetch = (options: Partial<SafeFetchOptions> = {}): SafeFetch & Disposable => {
  const fetch = new SafeFetch({
    clock: systemClock,
    lookUp: async () => ({ kind: 'ok', addresses: ['127.0.0.1'] }),
    findRefusal: () => undefined,
    ...options,
  })
  return Object.assign(fetch, { [Symbol.dispose]: () => fetch.close() })
}

const REQUEST = { method: 'HEAD', headers: { 'user-agent': 'test' }, timeoutMs: 60_000 } as const

test('the head of a response is read over https, with the name of the certificate', async () => {
  const receiver = await startHttpsReceiver({ names: ['shop.test'] })
  receiver.answer({ status: 302, headers: { location: '/next' } })
  try {
    using fetch = createFetch({ ca: [receiver.caPem] })
    const url = receiver.url('shop.test')
    expect(await fetch.readHead(url, REQUEST)).toEqual({ kind: 'response', status: 302, location: '/next' })
    expect(receiver.requests[0]).toMatchObject({ method: 'HEAD', serverName: 'shop.test' })
    expect(receiver.requests[0]?.headers).toMatchObject({ 'user-agent': 'test', 'accept-encoding': 'identity' })
    expect(await fetch.readHead(url.replace('shop.test', 'other.test'), REQUEST)).toEqual({
      kind: 'failed',
      reason: 'The TLS certificate is not for other.test.',
    })
    using distrustful = createFetch()
    expect(await distrustful.readHead(url, REQUEST)).toMatchObject({ kind: 'failed' })
  } finally {
    await receiver.close()
  }
})

test('a body is not read, however long, and a silent server ends with the time limit', async () => {
  const abandoned = Promise.withResolvers<void>()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: ({ url }) =>
      url.endsWith('/silent')
        ? new Promise<Response>(() => undefined)
        : new Response(
            new ReadableStream({
              async pull(controller) {
                controller.enqueue(new Uint8Array(64 * 1024))
                await Bun.sleep(1)
              },
              cancel: () => abandoned.resolve(),
            }),
          ),
  })
  try {
    using fetch = createFetch()
    const base = `http://any.test:${server.port}`
    expect(await fetch.readHead(`${base}/`, { ...REQUEST, method: 'GET' })).toEqual({
      kind: 'response',
      status: 200,
      location: undefined,
    })
    // The connection is closed; otherwise the test times out.
    await abandoned.promise
    expect(await fetch.readHead(`${base}/silent`, { ...REQUEST, timeoutMs: 300 })).toEqual({
      kind: 'failed',
      reason: 'any.test did not answer within 0.3 seconds.',
    })
  } finally {
    await server.stop(true)
  }
})

test.each([
  ['ftp://a.test/', 'must begin with https:// or http://'],
  ['http://user:secret@a.test/', 'user name'],
  ['http://a.test:25/', 'Port 25'],
  ['https://a.test:22/', 'Port 22'],
  ['http://a.test/\r\nX: y', 'control characters'],
])('%j is refused without a connection', async (url, reason) => {
  using fetch = createFetch({ lookUp: () => Promise.reject(new Error('resolved')) })
  expect(await fetch.readHead(url, REQUEST)).toMatchObject({ kind: 'refused', reason: expect.stringContaining(reason) })
})

test('an address that may not be called is refused, also behind a name', async () => {
  using fetch = createFetch({ findRefusal: () => 'is private' })
  expect(await fetch.readHead('http://a.test/', REQUEST)).toEqual({
    kind: 'refused',
    reason: 'a.test resolves to an address that is private',
  })
  expect(await fetch.readHead('http://10.0.0.1/', REQUEST)).toEqual({ kind: 'refused', reason: '10.0.0.1 is private' })
})
