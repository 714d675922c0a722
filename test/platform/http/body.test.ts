import { afterAll, describe, expect, test } from 'bun:test'
import { KiB, MiB, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startTestServer, type TestServer } from './fixture.ts'
import { openRawConnection, parseStatuses, waitUntil } from './raw-client.ts'

const KEY = 'Authorization: Bearer tassis_live_writer'
const JSON_TYPE = 'Content-Type: application/json'

const post = (server: TestServer, body: RequestInit['body'], headers: Record<string, string> = {}) =>
  server.request('/v1/boxes', {
    method: 'POST',
    body: body ?? null,
    headers: { authorization: 'Bearer tassis_live_writer', 'content-type': 'application/json', ...headers },
  })

const statusAndCode = async (response: Response) => {
  const body = (await response.json()) as { code?: string }
  return [response.status, body.code]
}

const server = startTestServer({ maxBodyBytes: 4 * MiB })
afterAll(() => server[Symbol.asyncDispose]())

const chunked = (text: string, chunkBytes = 1000): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      const bytes = new TextEncoder().encode(text)
      for (let i = 0; i < bytes.length; i += chunkBytes) controller.enqueue(bytes.slice(i, i + chunkBytes))
      controller.close()
    },
  })

describe('content type', () => {
  test.each([
    'application/json',
    'Application/JSON; charset=UTF-8',
    'application/json;charset="utf-8"',
    'application/vnd.api+json',
    'application/json; profile=x',
  ])('%s is JSON', async (contentType) => {
    expect((await post(server, '{"label":"x"}', { 'content-type': contentType })).status).toBe(201)
  })

  // Proves: http-11
  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'text/json',
    'application/json; charset=iso-8859-1',
    'multipart/form-data; boundary=x',
  ])('%s is a 415 that names the required header', async (contentType) => {
    const response = await post(server, '{"label":"x"}', { 'content-type': contentType })
    expect(response.status).toBe(415)
    expect(await response.json()).toMatchObject({
      code: 'unsupported_media_type',
      type: 'invalid_request',
      message: expect.stringContaining('Content-Type: application/json'),
    })
  })

  test('a body without a content type is a 415, and so is a compressed one', async () => {
    using raw = await openRawConnection(server.port)
    raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\nContent-Length: 13\r\n\r\n{"label":"x"}`)
    expect(parseStatuses(await raw.until((text) => text.includes('unsupported_media_type')))).toEqual([415])
    const gzipped = await post(server, Bun.gzipSync('{"label":"x"}'), { 'content-encoding': 'gzip' })
    expect(await statusAndCode(gzipped)).toEqual([415, 'unsupported_media_type'])
  })
})

describe('empty bodies', () => {
  // Proves: http-6
  test.each([null, '', 'null', '{}', '[]'])('%s is accepted where no body is expected', async (body) => {
    const response = await server.request('/v1/boxes/1/open', { method: 'POST', body })
    expect([response.status, await response.json()]).toEqual([200, { message: 'opened by writer' }])
  })

  test('an empty form, as some clients send it, is accepted too', async () => {
    using raw = await openRawConnection(server.port)
    const type = 'Content-Type: application/x-www-form-urlencoded'
    raw.send(`POST /v1/boxes/1/open HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${type}\r\nContent-Length: 0\r\n\r\n`)
    raw.send(
      `POST /v1/boxes/1/open HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${type}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    )
    expect(parseStatuses(await raw.until((text) => text.split('opened by').length === 3))).toEqual([200, 200])
  })

  test.each([null, '', 'null', '{}', '[]'])(
    '%s where fields are required gets the missing ones named',
    async (body) => {
      const response = await post(server, body)
      expect(response.status).toBe(422)
      expect(await response.json()).toMatchObject({ details: [{ field: 'label', message: 'is required' }] })
    },
  )

  // Proves: http-7
  test('a map may be an empty array, but no other value that is not an object', async () => {
    const noteOf = async (metadata: string) => {
      const response = await post(server, `{"label":"x","metadata":${metadata}}`)
      return response.status === 201
        ? ((await response.json()) as { data: { note?: string } }).data.note
        : ((await response.json()) as { details: object[] }).details
    }
    expect(await noteOf('[]')).toBe('{}')
    expect(await noteOf('{"a":{"b":[1]}}')).toBe('{"a":{"b":[1]}}')
    expect(await noteOf('null')).toBe('null')
    const refused = [{ field: 'metadata', message: 'must be an object or null' }]
    expect(await noteOf('"x"')).toEqual(refused)
    expect(await noteOf('5')).toEqual(refused)
  })
})

describe('JSON', () => {
  // Proves: http-9
  test.each([
    '{',
    '{"label":topsecret}',
    "{'label':'topsecret'}",
    '{"label":"topsecret"}}',
    'topsecret',
    '{"label":"topsecret',
  ])('%s is a 400 that does not repeat it', async (text) => {
    const response = await post(server, text)
    const body = await response.text()
    expect([response.status, JSON.parse(body).code, JSON.parse(body).type]).toEqual([
      400,
      'invalid_json',
      'validation_error',
    ])
    expect(body).not.toContain('topsecret')
  })

  test('that is not UTF-8 is a 400; bytes are not replaced', async () => {
    const latin1 = Buffer.from('{"label":"caf\xe9"}', 'latin1')
    expect(await statusAndCode(await post(server, latin1))).toEqual([400, 'invalid_json'])
    expect(((await (await post(server, '\ufeff{"label":"café"}')).json()) as { data: object }).data).toMatchObject({
      label: 'café of writer',
    })
  })

  test('with masses of brackets is a 400, and the server survives', async () => {
    const depth = 100_000
    const bombs = [
      '['.repeat(depth) + ']'.repeat(depth),
      '['.repeat(depth),
      `{"label":"x","metadata":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`,
    ]
    for (const bomb of bombs) expect(await statusAndCode(await post(server, bomb))).toEqual([400, 'invalid_json'])
    expect((await post(server, '{"label":"x"}')).status).toBe(201)
  })

  test('may have brackets inside strings', async () => {
    const content = `${'\\"[{'.repeat(500)}\\\\`
    expect((await post(server, JSON.stringify({ label: 'x', content }))).status).toBe(201)
  })

  test('with more than 200,000 values is a 413 that says so', async () => {
    await using server = startTestServer({ maxBodyBytes: 4 * MiB, memoryBudgetBytes: 256 * MiB })
    const body = (values: number) => `{"label":"x","metadata":{"a":[${'1,'.repeat(values - 5)}1]}}`
    expect((await post(server, body(200_000))).status).toBe(201)
    const refused = await post(server, body(200_001))
    expect(refused.status).toBe(413)
    expect(await refused.json()).toMatchObject({
      code: 'payload_too_large',
      message: 'The request body has more than 200000 values; send it in several requests.',
    })
    expect(server.memory.inUseBytes).toBe(0)
  })

  test('with twenty thousand fields, nearly all unknown, gets twenty details', async () => {
    const fields = Array.from({ length: 19_999 }, (_, i) => `"unknown${i}":1`).join(',')
    const response = await post(server, `{"label":"x",${fields}}`)
    expect(response.status).toBe(422)
    expect(((await response.json()) as { details: object[] }).details).toHaveLength(20)
  })

  // Proves: http-24
  test('with more fields is refused before it is parsed', async () => {
    const fields = Array.from({ length: 21_001 }, (_, i) => `"unknown${i}":1`).join(',')
    // Not even the syntax is looked at.
    for (const text of [`{${fields}}`, `{"label":"x","metadata":{${fields}}}`, `[[${fields}`]) {
      const response = await post(server, text)
      expect(response.status).toBe(413)
      expect(((await response.json()) as { error: { message: string } }).error.message).toBe(
        'The request body has more than 20000 different field names; send it in several requests, or as lists instead of objects.',
      )
    }
  })

  test('with __proto__ is refused like any unknown field, and changes no object', async () => {
    const response = await post(server, '{"label":"x","__proto__":{"polluted":1},"constructor":1}')
    expect(response.status).toBe(422)
    expect(await response.json()).toMatchObject({ details: [{ field: '__proto__' }, { field: 'constructor' }] })
    const free = await post(server, '{"label":"x","metadata":{"__proto__":{"polluted":1}}}')
    expect(await free.json()).toMatchObject({ data: { note: '{"__proto__":{"polluted":1}}' } })
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
  })
})

describe('size', () => {
  test('over the limit in Content-Length is refused before any of the body arrives', async () => {
    await using server = startTestServer({ maxBodyBytes: 100 * KiB })
    for (const length of ['102401', '99999999999999999999']) {
      using raw = await openRawConnection(server.port)
      raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nContent-Length: ${length}\r\n\r\n`)
      // Bun itself refuses a length that it cannot parse, and closes.
      const received = await raw.until((text) => text.includes('payload_too_large')).catch(() => raw.closed)
      if (length.length < 16) {
        expect(parseStatuses(received)).toEqual([413])
        expect(received).toContain('"code":"payload_too_large"')
        expect(received).toContain('"type":"invalid_request"')
      } else expect(parseStatuses(received)[0]).toBeOneOf([400, 413])
    }
  })

  // Proves: http-10
  test('of exactly the limit is read, one byte more is not, declared or chunked', async () => {
    await using server = startTestServer({ maxBodyBytes: 100 * KiB })
    const frame = '{"label":"x","content":""}'
    const ofSize = (size: number) => frame.replace('""', `"${'a'.repeat(size - frame.length)}"`)
    for (const [size, status] of [
      [100 * KiB, 201],
      [100 * KiB + 1, 413],
    ] as const) {
      expect(Buffer.byteLength(ofSize(size))).toBe(size)
      expect((await post(server, ofSize(size))).status).toBe(status)
      expect((await post(server, chunked(ofSize(size)))).status).toBe(status)
    }
    expect(server.memory.inUseBytes).toBe(0)
  })

  test('is at most 64 KiB for unauthenticated senders', async () => {
    await using server = startTestServer({ maxBodyBytes: 1 * MiB })
    const send = (sizeBytes: number, isChunked: boolean) => {
      const form = `email=${'a'.repeat(sizeBytes - 'email='.length)}`
      return server.request('/page', {
        method: 'POST',
        body: isChunked ? chunked(form) : form,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      })
    }
    for (const isChunked of [false, true]) {
      expect((await send(64 * KiB, isChunked)).status).toBe(200)
      expect(await statusAndCode(await send(64 * KiB + 1, isChunked))).toEqual([413, 'payload_too_large'])
    }
  })

  test('does not matter for a route that reads no body, and the next request is read correctly', async () => {
    using raw = await openRawConnection(server.port)
    for (const method of ['GET', 'POST'])
      raw.send(
        `${method} //v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nContent-Length: 13\r\n\r\n{"label":"x"}`,
      )
    expect(parseStatuses(await raw.until((text) => parseStatuses(text).length === 2))).toEqual([200, 201])
  })

  test('is limited for an endless chunked body', async () => {
    await using server = startTestServer({ maxBodyBytes: 100 * KiB })
    using raw = await openRawConnection(server.port)
    raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n`)
    const piece = `${(16 * KiB).toString(16)}\r\n${'a'.repeat(16 * KiB)}\r\n`
    for (let i = 0; i < 8; i++) raw.send(piece)
    expect(await raw.until((text) => text.includes('payload_too_large'))).toContain(' 413 ')
  })
})

describe('memory', () => {
  // Proves: storage-3, error-14
  test('over the budget is a 503 with Retry-After, and reserved memory is released', async () => {
    await using server = startTestServer({ maxBodyBytes: 1 * MiB, memoryBudgetBytes: 3 * MiB })
    using raw = await openRawConnection(server.port)
    const head = (length: number) =>
      `POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nContent-Length: ${length}\r\n\r\n`
    const body = JSON.stringify({ label: 'x', content: 'a'.repeat(400 * KiB) })
    raw.send(head(body.length) + body.slice(0, 100))
    await waitUntil(() => server.memory.inUseBytes > 0)

    const refused = await post(server, body)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
    expect(await refused.json()).toMatchObject({ code: 'server_busy', type: 'server_error', retry_after: 2 })
    expect((await post(server, '{"label":"small"}')).status).toBe(201)

    raw.send(body.slice(100))
    expect(parseStatuses(await raw.until((text) => text.includes('"data"')))).toEqual([201])
    expect(server.memory.inUseBytes).toBe(0)
    expect((await post(server, body)).status).toBe(201)
  })

  test('keeps a quarter for small bodies', async () => {
    await using server = startTestServer({ maxBodyBytes: 1 * MiB, memoryBudgetBytes: 2 * MiB })
    using raw = await openRawConnection(server.port)
    const large = 300 * KiB
    raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nContent-Length: ${large}\r\n\r\n{`)
    await waitUntil(() => server.memory.inUseBytes > 0)
    const withContent = (bytes: number) => JSON.stringify({ label: 'x', content: 'a'.repeat(bytes) })
    expect((await post(server, withContent(100 * KiB))).status).toBe(503)
    expect((await post(server, chunked(withContent(100 * KiB)))).status).toBe(503)
    expect((await post(server, withContent(60 * KiB))).status).toBe(201)
  })

  test('that no budget could hold makes a body a 413', async () => {
    await using server = startTestServer({ maxBodyBytes: 10 * MiB, memoryBudgetBytes: 1 * MiB })
    expect((await post(server, JSON.stringify({ label: 'x', content: 'a'.repeat(300 * KiB) }))).status).toBe(413)
  })

  test('counts values as well as bytes', async () => {
    await using server = startTestServer({ maxBodyBytes: 1 * MiB, memoryBudgetBytes: 4 * MiB })
    const array = `{"label":"x","metadata":{"a":[${'{},'.repeat(60_000)}1]}}`
    expect(await statusAndCode(await post(server, array))).toEqual([503, 'server_busy'])
    expect(server.memory.inUseBytes).toBe(0)
  })

  test.each([
    ['an invalid body', '{"label":1}'],
    ['malformed JSON', '{'],
    ['a good body', '{"label":"x"}'],
  ])('is not reserved any more after %s', async (_, body) => {
    await post(server, body)
    expect(server.memory.inUseBytes).toBe(0)
  })

  test('is not reserved any more for a client that disconnected', async () => {
    const raw = await openRawConnection(server.port)
    raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\nContent-Length: 1000\r\n\r\n{`)
    await waitUntil(() => server.memory.inUseBytes > 0)
    raw.socket.destroy()
    await waitUntil(() => server.memory.inUseBytes === 0)
    expect(server.log).toEqual([])
  })
})

describe('slow bodies', () => {
  // Proves: error-12
  test.each([
    ['declared', 'Content-Length: 1000\r\n\r\n{'],
    ['chunked', 'Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n'],
  ])('a %s body that trickles is a 408 after the time limit', async (_, rest) => {
    const clock = new ManualClock()
    await using server = startTestServer({ clock, requestTimeoutSeconds: 30 })
    using raw = await openRawConnection(server.port)
    raw.send(`POST /v1/boxes HTTP/1.1\r\nHost: x\r\n${KEY}\r\n${JSON_TYPE}\r\n${rest}`)
    await waitUntil(() => server.memory.inUseBytes > 0)
    clock.advance(seconds(29))
    expect((await post(server, '{"label":"x"}')).status).toBe(201)
    expect(raw.received()).toBe('')
    clock.advance(seconds(2))
    const received = await raw.until((text) => text.includes('request_timeout'))
    expect(parseStatuses(received)).toEqual([408])
    expect(received).toContain('"type":"timeout"')
    expect(server.memory.inUseBytes).toBe(0)
  })
})

describe('a client that writes its whole body before it reads', () => {
  const SIZE = 16 * MiB
  const sendAll = async (port: number, head: string, isChunked: boolean) => {
    using raw = await openRawConnection(port)
    raw.socket.pause()
    const piece = 'a'.repeat(256 * KiB)
    raw.send(`${head}\r\n${isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${SIZE}`}\r\n\r\n`)
    for (let sent = 0; sent < SIZE; sent += piece.length)
      raw.send(isChunked ? `${piece.length.toString(16)}\r\n${piece}\r\n` : piece)
    await new Promise<void>((resolve, reject) =>
      raw.socket.write(isChunked ? '0\r\n\r\n' : '', (error) => (error ? reject(error) : resolve())),
    )
    raw.socket.resume()
    return parseStatuses(await raw.until((text) => text.includes('"code"')))
  }

  // Proves: http-25
  test.each([
    ['too large a body', 413, '/v1/boxes', `${KEY}\r\n${JSON_TYPE}`],
    ['too large a body at an odd URL', 413, '//v1/boxes', `${KEY}\r\n${JSON_TYPE}`],
    ['a wrong key', 401, '/v1/boxes', `Authorization: Bearer x\r\n${JSON_TYPE}`],
    ['a large body at an unknown path', 404, '/v1/nothing', `${KEY}\r\n${JSON_TYPE}`],
    ['a body of the wrong type', 415, '/v1/boxes', `${KEY}\r\nContent-Type: text/xml`],
    ['a body for which there is no memory', 503, '/v1/boxes', `${KEY}\r\n${JSON_TYPE}`],
  ])('sees the refusal of %s', async (_, status, target, fields) => {
    await using server = startTestServer({
      maxBodyBytes: status === 413 ? 100 * KiB : 64 * MiB,
      memoryBudgetBytes: 400 * MiB,
    })
    const held = status === 503 ? server.memory.reserve(390 * MiB) : undefined
    for (const connection of ['keep-alive', 'close', 'Close, TE'])
      for (const isChunked of [false, true]) {
        const head = `POST ${target} HTTP/1.1\r\nHost: x\r\nConnection: ${connection}\r\n${fields}`
        expect(await sendAll(server.port, head, isChunked)).toEqual([status])
      }
    held?.release()
    expect(server.memory.inUseBytes).toBe(0)
  })

  test('and never ends it gets the response after ten seconds; one that disconnects leaves nothing', async () => {
    const clock = new ManualClock()
    await using server = startTestServer({ clock })
    using raw = await openRawConnection(server.port)
    const gone = await openRawConnection(server.port)
    for (const each of [raw, gone])
      each.send('POST /v1/boxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n{')
    await waitUntil(() => server.memory.inUseBytes === 4 * MiB)
    gone.socket.destroy()
    await waitUntil(() => server.memory.inUseBytes === 2 * MiB)
    clock.advance(seconds(9))
    expect(raw.received()).toBe('')
    clock.advance(seconds(2))
    expect(parseStatuses(await raw.closed)).toEqual([401])
    expect(server.memory.inUseBytes).toBe(0)
    expect(server.log).toEqual([])
  })
})
