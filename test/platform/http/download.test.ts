import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { createDownload, streamDownload } from '#platform/http/download.ts'
import { DOWNLOAD_BYTES } from '#platform/http/paced-body.ts'
import { setRequestContext } from '#platform/http/request-context.ts'
import { MemoryBudget } from '#platform/process/memory-budget.ts'
import { KiB, MiB, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startTestServer } from './fixture.ts'
import { openRawConnection, waitUntil } from './raw-client.ts'

const headersOf = (contentType: string, filename: string | null) => {
  const { headers } = createDownload(Buffer.from('x'), { contentType, filename })
  return [headers.get('content-type'), headers.get('content-disposition')]
}

test.each<[type: string, name: string | null, contentType: string, disposition: string]>([
  ['application/pdf', 'Rechnung.pdf', 'application/pdf', 'attachment; filename="Rechnung.pdf"'],
  ['text/html', null, 'application/octet-stream', 'attachment'],
  ['image/svg+xml', 'a.svg', 'application/octet-stream', 'attachment; filename="a.svg"'],
  ['text/plain', '', 'text/plain', 'attachment'],
  ['text/plain; charset=utf-8', 'a.txt', 'application/octet-stream', 'attachment; filename="a.txt"'],
  [
    'text/plain\r\nx: y',
    'a\r\nSet-Cookie: b',
    'application/octet-stream',
    'attachment; filename="a__Set-Cookie: b"; filename*=UTF-8\'\'a%0D%0ASet-Cookie%3A%20b',
  ],
  [
    'image/png',
    'Prüfung "1".png',
    'image/png',
    'attachment; filename="Pr_fung _1_.png"; filename*=UTF-8\'\'Pr%C3%BCfung%20%221%22.png',
  ],
  ['', '50%.txt', 'application/octet-stream', 'attachment; filename="50_.txt"; filename*=UTF-8\'\'50%25.txt'],
  ['image/gif', "it's(1)*.gif", 'image/gif', 'attachment; filename="it\'s(1)*.gif"'],
  ['image/gif', "ü'()*", 'image/gif', "attachment; filename=\"_'()*\"; filename*=UTF-8''%C3%BC%27%28%29%2A"],
  ['image/gif', '\ud800.gif', 'image/gif', 'attachment; filename="_.gif"; filename*=UTF-8\'\'%EF%BF%BD.gif'],
])('content of type %j named %j', (type, name, contentType, disposition) => {
  expect(headersOf(type, name)).toEqual([contentType, disposition])
})

test('a browser saves any download, guesses no type and loads nothing', async () => {
  const answer = createDownload(Buffer.from('<script>1</script>'), { contentType: 'text/html', filename: 'a.html' })
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
  expect(answer.headers.get('content-security-policy')).toBe("sandbox; default-src 'none'")
  expect(await answer.text()).toBe('<script>1</script>')
})

const FILE = { contentType: 'text/plain', filename: 'a.txt' }

/** Chunks of 64 KiB, with counts of those read and closed. */
function sliced(count: number, fail = Number.POSITIVE_INFINITY) {
  const state = { read: 0, closed: 0 }
  function* slices() {
    try {
      for (let n = 0; n < count; n++) {
        if (n === fail) throw new Error('the disk is broken')
        state.read++
        yield new Uint8Array(64 * KiB).fill(97)
      }
    } finally {
      state.closed++
    }
  }
  return { state, slices }
}

describe('a long download', () => {
  /** A server with one route that returns `slices`. */
  function serve(open: () => Iterable<Uint8Array>, options: { memoryBudgetBytes?: number } = {}) {
    const clock = new ManualClock(Date.UTC(2026, 2, 15))
    const route = new Elysia().get('/file', ({ request }) =>
      streamDownload(
        { clock, memory: server.memory, log: { error: (_, message) => void errors.push(message) } },
        request,
        open,
        FILE,
      ),
    )
    const errors: string[] = []
    const server = startTestServer({ routes: [route], ...options })
    return { server, clock, errors, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
  }

  test('arrives whole, and holds its memory until its end', async () => {
    const { state, slices } = sliced(20)
    const held = new Set<number>()
    await using it = serve(function* () {
      for (const slice of slices()) {
        held.add(it.server.memory.inUseBytes)
        yield slice
      }
    })
    const answer = await it.server.request('/file')
    expect([answer.headers.get('content-type'), (await answer.bytes()).length]).toEqual(['text/plain', 20 * 64 * KiB])
    await waitUntil(() => it.server.memory.inUseBytes === 0)
    expect({ held: [...held], state }).toEqual({ held: [DOWNLOAD_BYTES], state: { read: 20, closed: 1 } })
  })

  test('is read no further than its client reads, and closed when the client disconnects', async () => {
    const { state, slices } = sliced(10_000)
    await using it = serve(slices)
    using raw = await openRawConnection(it.server.port)
    raw.socket.pause()
    raw.send('GET /file HTTP/1.1\r\nHost: x\r\n\r\n')
    // Until the socket buffers are full.
    let before = -1
    await waitUntil(() => {
      const isSame = before === state.read && before > 0
      before = state.read
      return isSame
    })
    expect(state.read).toBeLessThan(1000)
    raw.socket.destroy()
    await waitUntil(() => state.closed === 1)
    expect(it.server.memory.inUseBytes).toBe(0)
  })

  test('is a 503 with Retry-After while there is no memory for another', async () => {
    await using it = serve(() => [Buffer.from('x')], { memoryBudgetBytes: 1 * MiB })
    const reservation = it.server.memory.reserve(1 * MiB - DOWNLOAD_BYTES)
    const answer = await it.server.request('/file')
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '2'])
    reservation?.release()
    expect(await (await it.server.request('/file')).text()).toBe('x')
  })

  test('that cannot be opened responds with its error, and HEAD with headers alone; neither holds memory', async () => {
    let isMissing = true
    const { state, slices } = sliced(1)
    await using it = serve(() => {
      if (isMissing) throw new Error('missing')
      return slices()
    })
    for (const method of ['GET', 'HEAD']) expect((await it.server.request('/file', { method })).status).toBe(500)
    isMissing = false
    const head = await it.server.request('/file', { method: 'HEAD' })
    expect([head.status, head.headers.get('content-disposition'), await head.text()]).toEqual([
      200,
      'attachment; filename="a.txt"',
      '',
    ])
    expect([it.server.memory.inUseBytes, state.read]).toEqual([0, 0])
  })

  test('that fails midway is logged, and never ends as if it were whole', async () => {
    const { state, slices } = sliced(5, 3)
    await using it = serve(slices)
    using raw = await openRawConnection(it.server.port)
    raw.send('GET /file HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(await raw.closed).not.toEndWith('\r\n0\r\n\r\n')
    expect([it.errors, state, it.server.memory.inUseBytes]).toEqual([
      ['download aborted: its content could not be read'],
      { read: 3, closed: 1 },
      0,
    ])
  })

  test('whose client reads nothing for a minute ends: its memory is free, its connection closed', async () => {
    const { state, slices } = sliced(10_000)
    await using it = serve(slices)
    using raw = await openRawConnection(it.server.port)
    raw.socket.pause()
    raw.send('GET /file HTTP/1.1\r\nHost: x\r\n\r\n')
    await waitUntil(() => {
      it.clock.advance(seconds(60))
      return state.closed === 1
    })
    expect(it.server.memory.inUseBytes).toBe(0)
    raw.socket.resume()
    expect(await raw.closed).not.toEndWith('\r\n0\r\n\r\n')
  })
})

describe("a download's connection", () => {
  const begin = (open: () => Iterable<Uint8Array>, actor: unknown = undefined) => {
    const limits: number[] = []
    const clock = new ManualClock(Date.UTC(2026, 2, 15))
    const memory = new MemoryBudget(1 * MiB)
    const request = new Request('http://x.test/file')
    setRequestContext(request, {
      requestId: '1',
      path: '/file',
      actor,
      reservation: undefined,
      clientIp: () => '',
      setTimeout: (limitSeconds) => void limits.push(limitSeconds),
      idleSeconds: 45,
    })
    const { body } = streamDownload({ clock, memory, log: { error() {} } }, request, open, FILE)
    return { limits, clock, memory, reader: (body as ReadableStream<Uint8Array>).getReader() }
  }

  test('has no time limit until the end', async () => {
    const { limits, reader } = begin(() => [Buffer.from('x')])
    while (!(await reader.read()).done);
    expect(limits).toEqual([0, 45])
  })

  test('is cut a minute after its client last read; small chunks are combined', async () => {
    const { limits, clock, reader } = begin(() => Array.from({ length: 200 }, () => new Uint8Array(KiB)))
    for (let n = 0; n < 3; n++) {
      clock.advance(seconds(59))
      expect((await reader.read()).value?.length).toBe(64 * KiB)
    }
    expect(limits).toEqual([0])
    clock.advance(seconds(60))
    expect(limits).toEqual([0, 45, 1])
    await expect(reader.read()).rejects.toThrow('the response has ended')
  })

  test('is cut when its actor loses access', async () => {
    const actor = { isOpen: true, mayStillAct: () => actor.isOpen }
    const { state, slices } = sliced(3)
    const { limits, memory, reader } = begin(slices, actor)
    expect((await reader.read()).value?.length).toBe(64 * KiB)
    actor.isOpen = false
    await expect(reader.read()).rejects.toThrow('lost access')
    expect({ closed: state.closed, limits, inUse: memory.inUseBytes }).toEqual({
      closed: 1,
      limits: [0, 45, 1],
      inUse: 0,
    })
  })
})
