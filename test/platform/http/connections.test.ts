import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { openEventStream } from '#platform/http/event-stream.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { systemClock } from '#platform/time/clock.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startTestServer } from './fixture.ts'
import { openRawConnection, parseStatuses } from './raw-client.ts'

const KEY = 'Authorization: Bearer tassis_live_writer'
const JSON_TYPE = 'Content-Type: application/json'

describe('hostile and odd requests', () => {
  test.each([
    ['garbage', 'garbage\r\n\r\n'],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    [
      'two kinds of length',
      `POST /v1/boxes HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['a negative length', 'POST /v1/boxes HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n'],
    ['an endless header', `GET / HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(100_000)}`],
  ])('%s ends its own connection only', async (_, bytes) => {
    await using server = startTestServer()
    using raw = await openRawConnection(server.port)
    raw.send(bytes)
    expect(parseStatuses(await raw.closed).every((status) => status >= 400 && status < 500)).toBe(true)
    expect((await server.request('/healthz')).status).toBe(200)
    expect(server.log).toEqual([])
  })

  test('pipelined requests get responses in order', async () => {
    await using server = startTestServer()
    using raw = await openRawConnection(server.port)
    const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n${KEY}\r\n\r\n`
    const body = '{"label":"x"}'
    const post = `POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    raw.send(get('/v1/boxes') + post + get('/v1/nothing') + post + get('/healthz'))
    const received = await raw.until((text) => text.includes('"status":"ok"'))
    expect(parseStatuses(received)).toEqual([200, 201, 404, 201, 200])
  })

  test('a refused upload leaves the connection in sync or closed', async () => {
    await using server = startTestServer()
    using raw = await openRawConnection(server.port)
    const smuggled = `GET /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n\r\n`
    raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`)
    raw.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(parseStatuses(await raw.until((text) => text.includes('"status":"ok"')))).toEqual([401, 200])
  })

  test.each([
    ['without a Host (HTTP/1.0)', 'GET /v1/boxes HTTP/1.0\r\n'],
    ['with a Host that holds a path', 'GET /v1/boxes HTTP/1.1\r\nHost: a/v1/plans?\r\n'],
    ['with a Host of one letter', 'GET /v1/boxes HTTP/1.1\r\nHost: a\r\n'],
    ['with the whole URL', 'GET http://other.example/v1/boxes HTTP/1.1\r\nHost: a\r\n'],
    ['with a Host that begins with a slash', 'GET /v1/boxes HTTP/1.1\r\nHost: /v1/plans\r\n'],
  ])('a request %s is routed by its own path', async (_, head) => {
    await using server = startTestServer()
    using withKey = await openRawConnection(server.port)
    withKey.send(`${head}${KEY}\r\n\r\n`)
    const answered = await withKey.until((text) => text.includes('\r\n\r\n'))
    if (parseStatuses(answered)[0] !== 400) {
      expect(await withKey.until((text) => text.includes('"pagination"'))).toContain(' 200 ')
    }
    using withoutKey = await openRawConnection(server.port)
    withoutKey.send(`${head}\r\n`)
    expect(parseStatuses(await withoutKey.until((text) => text.includes('\r\n\r\n')))[0]).toBeOneOf([400, 401])
  })

  test('a client that expects 100 Continue gets it', async () => {
    await using server = startTestServer()
    using raw = await openRawConnection(server.port)
    const body = '{"label":"x"}'
    raw.send(
      `POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    await raw.until((text) => text.startsWith('HTTP/1.1 100 '))
    raw.send(body)
    expect(parseStatuses(await raw.until((text) => text.includes('"data"')))).toEqual([100, 201])
  })
})

/**
 * The shortest limits that a busy machine keeps: the server looks every 4 seconds for connections whose limit has
 * passed, and one of 4 seconds or less passes the next time it looks, however soon that is.
 */
const SHORT_LIMITS = { requestTimeoutSeconds: 4, handlerGraceSeconds: 1 }

// Both wait for the server's next look at its connections, together.
describe('a connection without a time limit', () => {
  const routes = () => [
    new Elysia()
      .get('/long', ({ request }) =>
        withoutTimeLimit(request, async () => {
          await Bun.sleep(1)
          return 'done'
        }),
      )
      .get('/stream', ({ request }) => {
        const pieces = ['first\n', undefined]
        const next = () => Promise.resolve(pieces.shift())
        return openEventStream({ request, clock: systemClock, next, onEnded() {}, onError() {} }).response
      }),
  ]

  test.concurrent('has a time limit again after the response: a client that then sends nothing, or half a request, is disconnected', async () => {
    await using server = startTestServer({ routes: routes(), ...SHORT_LIMITS })
    const afterAnswer = async (path: string, rest: string) => {
      using raw = await openRawConnection(server.port)
      raw.send(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
      await raw.until((text) => text.endsWith(path === '/long' ? 'done' : 'first\n'))
      raw.send(rest)
      // If that never happens, the test times out.
      return parseStatuses(await raw.closed)
    }
    const half = 'GET /long HTTP/1.1\r\nHost'
    const paths = ['/long', '/stream']
    expect(await Promise.all(paths.flatMap((path) => ['', half].map((rest) => afterAnswer(path, rest))))).toEqual(
      Array(4).fill([200]),
    )
  })

  test.concurrent('waits for a handler that needs long, while another connection of the same age is closed', async () => {
    const { promise: isCut, resolve } = Promise.withResolvers<string>()
    const routes = [
      new Elysia().get('/silent', () => isCut).get('/long', ({ request }) => withoutTimeLimit(request, () => isCut)),
    ]
    await using server = startTestServer({ routes, ...SHORT_LIMITS })
    using long = await openRawConnection(server.port)
    long.send('GET /long HTTP/1.1\r\nHost: x\r\n\r\n')
    using silent = await openRawConnection(server.port)
    silent.send('GET /silent HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(parseStatuses(await silent.closed)).toEqual([])
    resolve('done')
    expect(parseStatuses(await long.until((text) => text.endsWith('done')))).toEqual([200])
  })
})

describe('stopping', () => {
  const gate = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const entered = Promise.withResolvers<void>()
    const routes = [
      new Elysia().get('/wait', async () => {
        entered.resolve()
        await promise
        return 'waited'
      }),
    ]
    return { routes, open: resolve, entered: entered.promise }
  }

  test('lets running requests finish, and closes idle connections', async () => {
    const { routes, open, entered } = gate()
    await using server = startTestServer({ routes, clock: new ManualClock() })
    using idle = await openRawConnection(server.port)
    idle.send('GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n')
    await idle.until((text) => text.includes('route_not_found'))
    const running = server.request('/wait')
    await entered
    const stopped = server.http.stop()
    await idle.closed
    open()
    expect(await (await running).text()).toBe('waited')
    await stopped
    expect(server.request('/wait')).rejects.toThrow()
  })

  test('closes requests that still run after the grace period', async () => {
    const { routes, entered } = gate()
    const clock = new ManualClock()
    await using server = startTestServer({ routes, clock })
    const running = server.request('/wait').catch(() => 'cut')
    await entered
    const stopped = server.http.stop(5000)
    clock.advance(5000)
    await stopped
    expect(await running).toBe('cut')
  })
})
