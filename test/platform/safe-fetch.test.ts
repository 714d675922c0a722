import { describe, expect, test } from 'bun:test'
import { connect, isIP, type Socket } from 'node:net'
import { systemClock } from '#platform/clock.ts'
import { type FetchOutcome, type PostRequest, SafeFetch, type SafeFetchOptions } from '#platform/safe-fetch.ts'
import { isSpecialAddress } from '#protocols/dns/special-addresses.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import {
  drip,
  type HttpsReceiver,
  type HttpsReceiverOptions,
  hugeBody,
  startHttpsReceiver,
} from '#test/support/https-receiver.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const MiB = 1024 * 1024

/** Every name leads to the receivers' machine, which is allowed. */
function fetchFor(
  ca: string,
  { addresses = {}, ...options }: Partial<SafeFetchOptions> & { addresses?: Record<string, readonly string[]> } = {},
): SafeFetch & Disposable {
  const fetch = new SafeFetch({
    clock: systemClock,
    lookUp: async (host) => ({ kind: 'ok', addresses: addresses[host] ?? ['127.0.0.1'] }),
    findRefusal: () => undefined,
    ca: [ca],
    ...options,
  })
  return Object.assign(fetch, { [Symbol.dispose]: () => fetch.close() })
}

async function setUp(options: Partial<HttpsReceiverOptions> = {}, fetchOptions: Parameters<typeof fetchFor>[1] = {}) {
  const receiver = await startHttpsReceiver({ names: ['hooks.test'], ...options })
  const fetch = fetchFor(receiver.caPem, fetchOptions)
  return {
    receiver,
    fetch,
    post: (changes: Partial<PostRequest> = {}, url = receiver.url('hooks.test')) => post(fetch, url, changes),
    async [Symbol.asyncDispose]() {
      fetch.close()
      await receiver.close()
    },
  }
}

/** The outcome without how long it took. */
async function post(fetch: SafeFetch, url: string, changes: Partial<PostRequest> = {}) {
  const outcome = await fetch.post(url, {
    headers: { 'content-type': 'application/json' },
    body: '{"a":"é"}',
    timeoutMs: 10_000,
    maxResponseBytes: 1000,
    ...changes,
  })
  const { durationMs, ...rest } = outcome
  expect(durationMs).toBeGreaterThanOrEqual(0)
  return rest
}

const answered = (status: number, body = '') => ({ kind: 'response' as const, status, body, address: '127.0.0.1' })
const failed = (cause: Extract<FetchOutcome, { kind: 'failed' }>['cause'], reason: string) => ({
  kind: 'failed' as const,
  cause,
  reason,
})

/** Memory that a test has made the process hold, at most, while `run` went on. */
async function peakBytesOf(run: () => Promise<unknown>): Promise<number> {
  Bun.gc(true)
  const before = process.memoryUsage().rss
  let peak = before
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 5)
  await run()
  clearInterval(timer)
  return Math.max(peak, process.memoryUsage().rss) - before
}

describe('a request', () => {
  test('goes to the address of the name, with the name in Host and TLS, its headers, and exactly its body', async () => {
    await using t = await setUp()
    t.receiver.answer({ status: 201, body: 'thanks' })
    const url = `${t.receiver.url('hooks.test', '/in?a=1')}#part`
    expect(await t.post({ headers: { 'Content-Type': 'text/x', 'X-Sign': 't=1' } }, url)).toEqual(
      answered(201, 'thanks'),
    )
    expect(t.receiver.requests).toMatchObject([{ method: 'POST', url: '/in?a=1', serverName: 'hooks.test' }])
    expect(t.receiver.requests[0]?.text).toBe('{"a":"é"}')
    expect(t.receiver.requests[0]?.headers).toEqual({
      'content-type': 'text/x',
      'x-sign': 't=1',
      host: `hooks.test:${t.receiver.port}`,
      'content-length': '10',
      'accept-encoding': 'identity',
      connection: 'keep-alive',
    })
  })

  test('may have bytes as its body, and cannot say by its headers how it is sent', async () => {
    await using t = await setUp()
    const body = Uint8Array.of(0, 255, 10)
    const headers = {
      Host: 'other.test',
      'Content-Length': '1',
      'Transfer-Encoding': 'chunked',
      'Accept-Encoding': 'gzip',
    }
    expect(await t.post({ body, headers })).toEqual(answered(200))
    expect(t.receiver.requests[0]?.body).toEqual(body)
    expect(t.receiver.requests[0]?.headers).toEqual({
      host: `hooks.test:${t.receiver.port}`,
      'content-length': '3',
      'accept-encoding': 'identity',
      connection: 'keep-alive',
    })
  })

  test.each([200, 204, 302, 400, 429, 503])('answered with %d is a response, with its body', async (status) => {
    await using t = await setUp()
    const body = status === 204 ? '' : 'why'
    t.receiver.answer({ status, body, headers: { location: 'https://127.0.0.1:1/' } })
    expect(await t.post()).toEqual(answered(status, body))
    expect(t.receiver.requests).toHaveLength(1)
  })

  // Proves: notify-48
  test('is not sent on to where a redirect leads', async () => {
    await using t = await setUp()
    await using other = await startHttpsReceiver({ names: ['other.test'], ca: t.receiver.ca })
    for (const status of [301, 302, 303, 307, 308]) {
      t.receiver.answer({ status, headers: { location: other.url() } })
      expect(await t.post()).toEqual(answered(status))
    }
    expect([t.receiver.requests.length, other.requests.length]).toEqual([5, 0])
  })

  test('after another goes over the same connection', async () => {
    await using t = await setUp()
    for (let i = 0; i < 3; i++) expect(await t.post()).toEqual(answered(200))
    expect(t.receiver.requests.map((r) => r.connection)).toEqual([0, 0, 0])
  })

  test('goes to an IP address in the URL when the certificate is for it', async () => {
    await using t = await setUp({ names: ['127.0.0.1'] })
    expect(await t.post({}, `https://127.0.0.1:${t.receiver.port}/`)).toEqual(answered(200))
    expect(await t.post({}, `https://2130706433:${t.receiver.port}/`)).toEqual(answered(200))
    await using other = await setUp()
    expect(await other.post({}, `https://127.0.0.1:${other.receiver.port}/`)).toEqual(
      failed('tls', 'The TLS certificate is not for 127.0.0.1.'),
    )
  })

  test('goes to an IPv6 address', async () => {
    await using t = await setUp({ names: ['::1'], host: '::1' })
    expect(await t.post({}, t.receiver.url('::1'))).toEqual({ ...answered(200), address: '::1' })
    expect(t.receiver.requests[0]?.headers['host']).toBe(`[::1]:${t.receiver.port}`)
  })

  test('goes by no proxy of the environment', async () => {
    await using t = await setUp()
    const before = process.env['HTTPS_PROXY']
    process.env['HTTPS_PROXY'] = 'http://127.0.0.1:1'
    try {
      expect(await t.post()).toEqual(answered(200))
    } finally {
      if (before === undefined) delete process.env['HTTPS_PROXY']
      else process.env['HTTPS_PROXY'] = before
    }
  })
})

describe('kept connections', () => {
  test('are not used for another name at the same address: its certificate is checked', async () => {
    await using t = await setUp()
    expect(await t.post()).toEqual(answered(200))
    expect(await t.post({}, t.receiver.url('other.test'))).toEqual(
      failed('tls', 'The TLS certificate is not for other.test.'),
    )
    expect(t.receiver.requests).toHaveLength(1)
  })

  test('are not used once the name leads to another address', async () => {
    await using t = await setUp()
    const moved = await startHttpsReceiver({ names: ['hooks.test'], ca: t.receiver.ca, host: '127.0.0.2' })
    await using _ = moved
    const addresses: Record<string, readonly string[]> = { 'hooks.test': ['127.0.0.1'] }
    using fetch = fetchFor(t.receiver.caPem, { addresses })
    expect(await post(fetch, t.receiver.url())).toEqual(answered(200))
    addresses['hooks.test'] = ['127.0.0.2']
    expect(await post(fetch, moved.url())).toEqual({ ...answered(200), address: '127.0.0.2' })
    expect(await post(fetch, t.receiver.url())).toMatchObject({ kind: 'failed', cause: 'connection' })
  })

  test('end after 4 seconds without a request', async () => {
    const clock = new ManualClock()
    await using t = await setUp({}, { clock })
    await t.post()
    clock.advance(3999)
    await t.post()
    clock.advance(3999)
    await t.post()
    expect(t.receiver.connections).toEqual({ accepted: 1, open: 1 })
    clock.advance(4000)
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('that are lost before an answer are followed by one new connection', async () => {
    await using t = await setUp()
    await t.post()
    let count = 0
    t.receiver.answer(() => (count++ === 0 ? 'reset' : { status: 202 }))
    expect(await t.post()).toEqual(answered(202))
    expect(t.receiver.requests.map((r) => r.connection)).toEqual([0, 0, 1])
    await t.post()
    t.receiver.answer('reset')
    expect(await t.post()).toEqual(failed('connection', 'hooks.test closed the connection before it answered.'))
  })

  test('are at most 256, the longest idle ends first', async () => {
    await using t = await setUp({ names: ['hooks.test'] })
    const release = Promise.withResolvers<void>()
    t.receiver.answer(async () => {
      await release.promise
      return {}
    })
    const posts = Array.from({ length: 300 }, () => t.post())
    await t.receiver.received(300)
    release.resolve()
    await Promise.all(posts)
    await eventually(() => t.receiver.connections.open <= 256)
    expect(t.receiver.connections).toEqual({ accepted: 300, open: 256 })
  })

  test('end when it is closed, and so do calls under way; further ones are refused', async () => {
    await using t = await setUp()
    const both = Promise.withResolvers<void>()
    t.receiver.answer(async () => {
      await both.promise
      return {}
    })
    const first = [t.post(), t.post()]
    await t.receiver.received(2)
    both.resolve()
    await Promise.all(first)
    t.receiver.answer('hang')
    const hanging = t.post()
    await t.receiver.received(3)
    expect(t.receiver.connections.open).toBe(2)
    t.fetch.close()
    expect(await hanging).toEqual(failed('connection', 'The service ended the call before there was an answer.'))
    expect(await t.post()).toEqual(failed('refused', 'The service is stopping.'))
    await eventually(() => t.receiver.connections.open === 0)
  })
})

describe('TLS', () => {
  const day = (year: number) => new Date(Date.UTC(year, 0, 1))
  const ca = createCertificateAuthority()

  test.each([
    [
      'has expired',
      ca.issue(['hooks.test'], { notAfter: day(2021) }),
      'The TLS certificate of hooks.test has expired.',
    ],
    [
      'is not valid yet',
      ca.issue(['hooks.test'], { notBefore: day(2049) }),
      'The TLS certificate of hooks.test is not valid yet.',
    ],
    ['is for another name', ca.issue(['other.test']), 'The TLS certificate is not for hooks.test.'],
    [
      'is from an unknown authority',
      createCertificateAuthority('Stranger').issue(['hooks.test']),
      'The TLS certificate of hooks.test is not from an authority that is trusted; its chain must be complete, and the operator names a private authority in TASSIS_EXTRA_CA_FILE.',
    ],
  ])('a certificate that %s ends the call before anything is sent', async (_, certificate, reason) => {
    await using t = await setUp({ ca, certificate })
    expect(await t.post()).toEqual(failed('tls', reason))
    expect(t.receiver.requests).toEqual([])
  })

  test('an unknown certificate fails whatever NODE_TLS_REJECT_UNAUTHORIZED says', async () => {
    await using t = await setUp({ ca, certificate: createCertificateAuthority().issue(['hooks.test']) })
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    try {
      expect(await t.post()).toMatchObject({ kind: 'failed', cause: 'tls' })
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    }
  })

  test('1.2 and 1.3 are spoken, 1.1 is not', async () => {
    await using new2 = await setUp({ tls: { maxVersion: 'TLSv1.2' } })
    expect(await new2.post()).toEqual(answered(200))
    await using new3 = await setUp({ tls: { minVersion: 'TLSv1.3' } })
    expect(await new3.post()).toEqual(answered(200))
    await using old = await setUp({ tls: { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } })
    expect(await old.post()).toEqual(failed('tls', 'hooks.test does not speak TLS 1.2 or newer.'))
  })

  test.each([
    ['garbage', failed('tls', 'hooks.test does not speak TLS on this port.')],
    ['drop', failed('tls', 'hooks.test closed the connection in the TLS handshake.')],
  ] as const)('%s in place of a handshake fails', async (handshake, outcome) => {
    await using t = await setUp({ handshake })
    expect(await t.post()).toEqual(outcome)
  })
})

describe('what may be called', () => {
  const refusing = (resolved: readonly string[] = []) => {
    const dialled: string[] = []
    const fetch = new SafeFetch({
      clock: new ManualClock(),
      lookUp: async (host) => {
        dialled.push(host)
        return resolved.length > 0
          ? { kind: 'ok', addresses: resolved }
          : { kind: 'failed', reason: `${host} has no address in DNS.`, isTemporary: false }
      },
      findRefusal: (address, port) => (isSpecialAddress(address) ? `is refused at port ${port}.` : undefined),
    })
    return { fetch, asked: dialled, [Symbol.dispose]: () => fetch.close() }
  }

  test.each([
    ['http://hooks.test/', 'The URL must begin with https:// and a host name.'],
    ['ftp://hooks.test/', 'The URL must begin with https:// and a host name.'],
    ['hooks.test', 'The URL must begin with https:// and a host name.'],
    ['', 'The URL must begin with https:// and a host name.'],
    ['https:hooks.test', 'The URL must begin with https:// and a host name.'],
    ['https://', 'The URL is not valid; give one such as https://example.com/hooks.'],
    ['https://[::g]/', 'The URL is not valid; give one such as https://example.com/hooks.'],
    ['https://user@hooks.test/', 'The URL must not contain a user name or password.'],
    ['https://user:secret@hooks.test/', 'The URL must not contain a user name or password.'],
    ['https://:secret@hooks.test/', 'The URL must not contain a user name or password.'],
    ['https://@hooks.test/', 'The URL must not contain a user name or password.'],
    ['https://:@hooks.test/', 'The URL must not contain a user name or password.'],
    ['https:///hooks.test/', 'The URL must begin with https:// and a host name.'],
    ...[
      'https://.hooks.test/',
      'https://hooks..test/',
      `https://${'a'.repeat(64)}.test/`,
      `https://${'a.'.repeat(125)}test/`,
    ].map((text): [string, string] => [
      text,
      'The URL has a host name that cannot exist: its parts have 1 to 63 characters, and all of it at most 253.',
    ]),
    ...['https://ho\u200boks.test/', 'https://hooks.test/\u202ecod', 'https://hooks.test/\ud800'].map(
      (text): [string, string] => [
        text,
        'The URL must not contain spaces, backslashes, control characters or invisible ones.',
      ],
    ),
    ['https://hooks.test:0/', 'The URL must not have port 0.'],
    [
      'https://hooks.test\\@10.0.0.1/',
      'The URL must not contain spaces, backslashes, control characters or invisible ones.',
    ],
    [' https://hooks.test/', 'The URL must not contain spaces, backslashes, control characters or invisible ones.'],
    ['https://ho\noks.test/', 'The URL must not contain spaces, backslashes, control characters or invisible ones.'],
  ])('%j is no URL that can be called', async (url, reason) => {
    using t = refusing(['192.0.2.1'])
    expect(await t.fetch.check(url)).toEqual({ kind: 'invalid', reason })
    expect(await post(t.fetch, url)).toEqual(failed('refused', reason))
    expect(t.asked).toEqual([])
  })

  test.each([
    ['https://127.0.0.1/', '127.0.0.1'],
    ['https://127.1/', '127.0.0.1'],
    ['https://0x7f000001/', '127.0.0.1'],
    ['https://2130706433/', '127.0.0.1'],
    ['https://0177.0.0.1/', '127.0.0.1'],
    ['https://127.0.0.1./', '127.0.0.1'],
    ['https://１２７.0.0.1/', '127.0.0.1'],
    ['https://%31%32%37.0.0.1/', '127.0.0.1'],
    ['https://0/', '0.0.0.0'],
    ['https://169.254.169.254/latest/meta-data', '169.254.169.254'],
    ['https://10.1.2.3/', '10.1.2.3'],
    ['https://[::1]/', '::1'],
    ['https://[::]/', '::'],
    ['https://[::ffff:127.0.0.1]/', '::ffff:7f00:1'],
    ['https://[64:ff9b::a00:1]/', '64:ff9b::a00:1'],
    ['https://[fd00::1]/', 'fd00::1'],
  ])('%s is the address %s, which is refused without a question', async (url, address) => {
    using t = refusing()
    const reason = `${address} is refused at port 443.`
    expect(await t.fetch.check(url)).toEqual({ kind: 'refused', reason })
    expect(await post(t.fetch, url)).toEqual(failed('refused', reason))
    expect(t.asked).toEqual([])
  })

  test.each([[['10.0.0.1']], [['8.8.8.8', '10.0.0.1']], [['8.8.8.8', 'fd00::1']], [['::ffff:10.0.0.1']]])(
    'a name that leads to %j is refused as a whole, without a word on where it leads',
    async (addresses) => {
      using t = refusing(addresses)
      const reason = 'hooks.test leads to an address that is refused at port 8443.'
      expect(await t.fetch.check('https://hooks.test:8443/')).toEqual({ kind: 'refused', reason })
      expect(await post(t.fetch, 'https://hooks.test:8443/')).toEqual(failed('refused', reason))
    },
  )

  test('localhost is this machine whatever DNS says, and other names of one label need an address', async () => {
    using lying = refusing(['8.8.8.8'])
    for (const host of ['localhost', 'LOCALHOST.', 'a.localhost'])
      expect(await lying.fetch.check(`https://${host}/`)).toMatchObject({ kind: 'refused' })
    expect(lying.asked).toEqual([])
    expect(await lying.fetch.check('https://intern/')).toEqual({ kind: 'ok' })
    using silent = refusing()
    const reason = 'intern has no address in DNS.'
    expect(await silent.fetch.check('https://intern/')).toEqual({ kind: 'refused', reason })
  })

  test('a name that does not resolve is told apart, and fails as DNS', async () => {
    using t = refusing()
    const reason = 'hooks.test has no address in DNS.'
    expect(await t.fetch.check('https://hooks.test/')).toEqual({ kind: 'unresolvable', reason })
    expect(await post(t.fetch, 'https://hooks.test/')).toEqual(failed('dns', reason))
  })

  test('a URL has at most 2,048 characters', async () => {
    using t = refusing(['8.8.8.8'])
    const longest = `https://hooks.test/${'a'.repeat(2048 - 19)}`
    expect(await t.fetch.check(longest)).toEqual({ kind: 'ok' })
    const reason = 'The URL must have at most 2048 characters.'
    expect(await t.fetch.check(`${longest}a`)).toEqual({ kind: 'invalid', reason })
  })

  test('names are asked for in ASCII, without the final dot and the fragment', async () => {
    using t = refusing(['8.8.8.8'])
    expect(await t.fetch.check('https://BÜCHER.test./#x')).toEqual({ kind: 'ok' })
    expect(t.asked).toEqual(['xn--bcher-kva.test'])
  })

  test('a check that gets no answer from DNS ends after 5 seconds', async () => {
    const clock = new ManualClock()
    using fetch = fetchFor('', { clock, ca: undefined, lookUp: () => new Promise(() => {}) })
    const check = fetch.check('https://hooks.test/')
    clock.advance(5000)
    expect(await check).toEqual({
      kind: 'unresolvable',
      reason: 'The address of hooks.test could not be looked up in time.',
    })
  })
})

describe('addresses', () => {
  test('the next is dialled when one lets nobody in, IPv6 only where there is no IPv4', async () => {
    await using t = await setUp({ host: '127.0.0.3' })
    using fetch = fetchFor(t.receiver.caPem, { addresses: { 'hooks.test': ['127.0.0.2', '127.0.0.3', '::1'] } })
    for (let i = 0; i < 10; i++) {
      expect(await post(fetch, t.receiver.url())).toEqual({ ...answered(200), address: '127.0.0.3' })
    }
    await using six = await setUp({ host: '::1' })
    const addresses = { 'both.test': ['127.0.0.2', '::1'], 'hooks.test': ['::1'] }
    using fetch6 = fetchFor(six.receiver.caPem, { addresses })
    expect(await post(fetch6, six.receiver.url())).toEqual({ ...answered(200), address: '::1' })
    for (let i = 0; i < 10; i++) {
      expect(await post(fetch6, six.receiver.url('both.test'))).toEqual(
        failed('connection', `both.test (127.0.0.2) refused the connection on port ${six.receiver.port}.`),
      )
    }
  })

  test('of a name with many are tried three', async () => {
    await using t = await setUp({ host: '127.0.0.9' })
    const addresses = { 'hooks.test': Array.from({ length: 8 }, (_, i) => `127.0.0.${i + 2}`) }
    using fetch = fetchFor(t.receiver.caPem, { addresses })
    // The order is random: of so many, some meet it among three, and some do not.
    const outcomes = await Promise.all(Array.from({ length: 60 }, () => post(fetch, t.receiver.url())))
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['response', 'failed']))
  })

  test('of localhost are both: a program may listen on ::1 alone', async () => {
    await using six = await setUp({ names: ['localhost', 'app.localhost'], host: '::1' })
    for (const host of ['localhost', 'app.localhost'])
      expect(await six.post({}, six.receiver.url(host))).toEqual({ ...answered(200), address: '::1' })
  })

  test('a name is looked up once a call: an answer that changes in between changes nothing', async () => {
    await using t = await setUp()
    let count = 0
    const asked: string[] = []
    using fetch = fetchFor(t.receiver.caPem, {
      lookUp: async () => ({ kind: 'ok', addresses: [count++ === 0 ? '127.0.0.1' : '127.0.0.9'] }),
      findRefusal: (address) => {
        asked.push(address)
        return isIP(address) === 4 ? undefined : 'is no IPv4 address.'
      },
    })
    expect(await post(fetch, t.receiver.url())).toEqual(answered(200))
    expect({ count, asked }).toEqual({ count: 1, asked: ['127.0.0.1'] })
  })
})

describe('responses', () => {
  test.each([
    ['with a length', { raw: withHead('content-length: 1073741824', hugeBody(1024 * MiB)) }],
    ['in chunks', { body: hugeBody(1024 * MiB) }],
    ['until the end of the connection', { raw: withHead('connection: close', hugeBody(1024 * MiB)) }],
  ])('a body of 1 GB %s is cut, and costs no memory', async (_, answer) => {
    await using t = await setUp()
    t.receiver.answer(answer)
    const grown = await peakBytesOf(async () => {
      expect(await t.post({ maxResponseBytes: 100 })).toEqual(answered(200, 'a'.repeat(100)))
      await eventually(() => t.receiver.connections.open === 0)
    })
    expect(t.receiver.sentBytes).toBeLessThan(64 * MiB)
    expect(grown).toBeLessThan(64 * MiB)
  })

  test('a compressed body is not decompressed', async () => {
    await using t = await setUp()
    const bomb = Bun.gzipSync(Buffer.alloc(100 * MiB))
    t.receiver.answer({ headers: { 'content-encoding': 'gzip' }, body: bomb })
    const outcome = await t.post({ maxResponseBytes: 200_000 })
    expect(outcome).toEqual(answered(200, new TextDecoder().decode(bomb)))
  })

  test('a body of exactly the bound is whole and its connection kept; one more octet is left out', async () => {
    await using t = await setUp()
    t.receiver.answer({ body: '12345' })
    expect(await t.post({ maxResponseBytes: 5 })).toEqual(answered(200, '12345'))
    await t.post({ maxResponseBytes: 5 })
    expect(t.receiver.connections.accepted).toBe(1)
    expect(await t.post({ maxResponseBytes: 4 })).toEqual(answered(200, '1234'))
    expect(await t.post({ maxResponseBytes: 0 })).toEqual(answered(200, ''))
  })

  test('a body is UTF-8: what is not is replaced, a character that is cut is left out', async () => {
    await using t = await setUp()
    t.receiver.answer({ body: Uint8Array.of(0x61, 0xff, 0x62) })
    expect(await t.post()).toEqual(answered(200, 'a\ufffdb'))
    t.receiver.answer({ body: Uint8Array.of(0x61, 0xc3) })
    expect(await t.post()).toEqual(answered(200, 'a\ufffd'))
    t.receiver.answer({ body: 'éé' })
    expect(await t.post({ maxResponseBytes: 3 })).toEqual(answered(200, 'é'))
    t.receiver.answer({ body: [Uint8Array.of(0xc3), Uint8Array.of(0xa9)] })
    expect(await t.post()).toEqual(answered(200, 'é'))
  })

  test('interim responses are passed over, but not without end', async () => {
    await using t = await setUp()
    const interim = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'
    t.receiver.answer({ raw: `${interim.repeat(8)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok` })
    expect(await t.post()).toEqual(answered(200, 'ok'))
    t.receiver.answer({ raw: interim.repeat(9) })
    expect(await t.post()).toEqual(failed('protocol', 'hooks.test sent too many interim responses.'))
  })

  const NOT_HTTP = failed('protocol', 'hooks.test answered with what is not HTTP.')
  const TOO_LARGE = failed('protocol', 'hooks.test sent a response with too large a head.')
  const CLOSED = failed('connection', 'hooks.test closed the connection before it answered.')
  test.each([
    ['of another protocol', 'SSH-2.0-OpenSSH_9.2\r\n', NOT_HTTP],
    [
      'with a length and chunks',
      'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
      NOT_HTTP,
    ],
    ['with a broken header', 'HTTP/1.1 200 OK\r\nx y\r\n\r\n', NOT_HTTP],
    ['with a header of 40 KiB', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(40_960)}\r\n\r\n`, TOO_LARGE],
    ['with 20,000 headers', `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(20_000)}\r\n`, TOO_LARGE],
    ['that ends in its head', 'HTTP/1.1 200 O', CLOSED],
    ['that is nothing', '', CLOSED],
  ])('an answer %s is a failure', async (_, raw, outcome) => {
    await using t = await setUp()
    t.receiver.answer({ raw, after: 'end' })
    expect(await t.post()).toEqual(outcome)
    await eventually(() => t.receiver.connections.open === 0)
  })

  test.each([
    ['a head without end', () => floodOf('HTTP/1.1 200 OK\r\n', 'x: y\r\n'.repeat(10_000)), TOO_LARGE],
    ['a header line without end', () => floodOf('HTTP/1.1 200 OK\r\nx: ', 'y'.repeat(60_000)), TOO_LARGE],
    [
      'trailers without end',
      () => floodOf('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n', 'x: y\r\n'.repeat(10_000)),
      answered(200, 'ok'),
    ],
    [
      'a chunk extension without end',
      () => floodOf('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;', 'y'.repeat(60_000)),
      answered(200, ''),
    ],
  ])('%s ends the connection and costs no memory', async (_, raw, outcome) => {
    await using t = await setUp()
    t.receiver.answer({ raw: raw() })
    const grown = await peakBytesOf(async () => {
      expect(await t.post()).toEqual(outcome)
      await eventually(() => t.receiver.connections.open === 0)
    })
    expect(grown).toBeLessThan(64 * MiB)
  })

  test('a body that breaks off is a response with what came of it', async () => {
    await using t = await setUp()
    const raw = 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc'
    t.receiver.answer({ raw, after: 'end' })
    expect(await t.post()).toEqual(answered(200, 'abc'))
    // Of what came before a reset the system may give nothing.
    const release = Promise.withResolvers<void>()
    t.receiver.answer({
      raw: (async function* () {
        yield raw
        await release.promise
      })(),
      after: 'reset',
    })
    let isOver = false
    const outcome = t.post().finally(() => {
      isOver = true
    })
    await t.receiver.received(2)
    await Bun.sleep(50)
    expect(isOver).toBe(false)
    release.resolve()
    expect(await outcome).toMatchObject({ kind: 'response', status: 200 })
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('an answer that changes the protocol is a failure, and ends the connection', async () => {
    await using t = await setUp()
    t.receiver.answer({ raw: 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n' })
    expect(await t.post()).toEqual(
      failed('protocol', 'hooks.test changed to another protocol, which was not asked for.'),
    )
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('a connection that is reset before an answer is a failure', async () => {
    await using t = await setUp()
    t.receiver.answer('reset')
    expect(await t.post()).toEqual(CLOSED)
    expect(t.receiver.requests).toHaveLength(1)
  })
})

describe('time', () => {
  const LATE = failed('timeout', 'hooks.test did not answer within 10 seconds.')

  test('covers the question to DNS', async () => {
    const clock = new ManualClock()
    using fetch = fetchFor('', { clock, ca: undefined, lookUp: () => new Promise(() => {}) })
    const outcome = post(fetch, 'https://hooks.test/')
    clock.advance(9999)
    expect(await Promise.race([outcome, Promise.resolve('waiting')])).toBe('waiting')
    clock.advance(1)
    expect(await outcome).toEqual(failed('dns', 'The address of hooks.test could not be looked up in time.'))
  })

  test('covers the handshake', async () => {
    const clock = new ManualClock()
    await using t = await setUp({ handshake: 'silence' }, { clock })
    const outcome = t.post()
    await eventually(() => t.receiver.connections.open === 1)
    clock.advance(10_000)
    expect(await outcome).toEqual(LATE)
    await eventually(() => t.receiver.connections.open === 0)
  })

  test.each([
    ['never comes', 'hang'],
    ['has begun its head', { raw: drip('HTTP/1.1 200 OK\r\nx: y', 1_000_000) }],
  ] as const)('covers an answer that %s', async (_, answer) => {
    const clock = new ManualClock()
    await using t = await setUp({}, { clock })
    t.receiver.answer(answer)
    const outcome = t.post()
    await t.receiver.received(1)
    clock.advance(9999)
    expect(await Promise.race([outcome, Bun.sleep(20)])).toBeUndefined()
    clock.advance(1)
    expect(await outcome).toEqual(LATE)
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('cuts a body that drips: the response counts with what came', async () => {
    const clock = new ManualClock()
    await using t = await setUp({}, { clock })
    let sent = 0
    t.receiver.answer({
      body: (async function* () {
        for await (const piece of drip('a', 5)) {
          sent++
          yield piece
        }
      })(),
    })
    const outcome = t.post({ maxResponseBytes: 1_000_000 })
    await eventually(() => sent > 5)
    clock.advance(10_000)
    const response = await outcome
    expect(response).toMatchObject({ kind: 'response', status: 200 })
    expect(response.kind === 'response' && response.body).toMatch(/^a{4,}$/)
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('is measured', async () => {
    const clock = new ManualClock()
    await using t = await setUp({}, { clock })
    t.receiver.answer(() => {
      clock.advance(1234)
      return {}
    })
    const outcome = await t.fetch.post(t.receiver.url(), {
      headers: {},
      body: '',
      timeoutMs: 5000,
      maxResponseBytes: 0,
    })
    expect(outcome).toEqual({ ...answered(200), durationMs: 1234 })
  })

  test('a silent address has its share, then the next one is dialled', async () => {
    const clock = new ManualClock()
    await using t = await setUp({}, { clock })
    await using _ = await startSilentAddress('127.0.0.2', t.receiver.port)
    using fetch = fetchFor(t.receiver.caPem, { clock, addresses: { 'hooks.test': ['127.0.0.1', '127.0.0.2'] } })
    // The order is random: of so many, some begin with the silent one.
    const outcomes = Array.from({ length: 20 }, () => post(fetch, t.receiver.url()))
    const now = () => Promise.all(outcomes.map((outcome) => Promise.race([outcome, Bun.sleep(200)])))
    await now()
    clock.advance(4999)
    expect(await now()).toContain(undefined)
    clock.advance(1)
    expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => answered(200)))
    using alone = fetchFor(t.receiver.caPem, { clock, addresses: { 'hooks.test': ['127.0.0.2'] } })
    const late = post(alone, t.receiver.url())
    clock.advance(9999)
    expect(await Promise.race([late, Bun.sleep(20)])).toBeUndefined()
    clock.advance(1)
    expect(await late).toEqual(LATE)
  })

  test('of the caller ends a call', async () => {
    await using t = await setUp()
    t.receiver.answer('hang')
    const controller = new AbortController()
    const outcome = t.post({ signal: controller.signal })
    await t.receiver.received(1)
    controller.abort()
    const ended = failed('connection', 'The service ended the call before there was an answer.')
    expect(await outcome).toEqual(ended)
    expect(await t.post({ signal: controller.signal })).toEqual(ended)
    expect(t.receiver.requests).toHaveLength(1)
  })
})

test('600 requests to a silent endpoint do not delay one to another', async () => {
  await using slow = await setUp({ names: ['slow.test'] })
  const good: HttpsReceiver = await startHttpsReceiver({ names: ['good.test'], ca: slow.receiver.ca })
  await using _ = good
  const clock = new ManualClock()
  using fetch = fetchFor(slow.receiver.caPem, { clock })
  slow.receiver.answer('hang')
  const hanging = Array.from({ length: 600 }, () => post(fetch, slow.receiver.url('slow.test')))
  await slow.receiver.received(600)
  expect(await post(fetch, good.url())).toEqual(answered(200))
  clock.advance(10_000)
  expect(new Set((await Promise.all(hanging)).map((o) => o.kind === 'failed' && o.cause))).toEqual(new Set(['timeout']))
})

function* withHead(header: string, body: Iterable<Uint8Array>): Generator<Uint8Array> {
  yield Buffer.from(`HTTP/1.1 200 OK\r\n${header}\r\n\r\n`)
  yield* body
}

async function* floodOf(first: string, further: string): AsyncGenerator<string> {
  yield first
  for (;;) {
    yield further
    await Bun.sleep(0)
  }
}

/** A port that neither accepts nor refuses: its process is stopped and the queue of the system is full. */
async function startSilentAddress(host: string, port: number): Promise<AsyncDisposable> {
  const listen = `require('node:net').createServer().listen({ host: '${host}', port: ${port} }, () => console.log('listening'))`
  const child = Bun.spawn([process.execPath, '-e', listen], { stdout: 'pipe' })
  await child.stdout.getReader().read()
  child.kill('SIGSTOP')
  const sockets: Socket[] = []
  // The first that is not accepted within a moment shows that the queue is full.
  for (let isFull = false; !isFull; ) {
    const round = Array.from({ length: 64 }, () => connect(port, host))
    sockets.push(...round)
    const accepted = round.map((socket) => new Promise((resolve) => socket.once('connect', () => resolve(true))))
    isFull = (await Promise.race([Promise.all(accepted), Bun.sleep(200)])) === undefined
  }
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

test('a connection for which there is no descriptor is the trouble of the service, not of the endpoint', async () => {
  // Nobody listens there.
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => undefined } })
  const { port } = listener
  listener.stop(true)
  const program = `${import.meta.dir}/too-many-files.ts`
  await using child = Bun.spawn(['bash', '-c', `ulimit -n 256; exec ${process.execPath} ${program} ${port}`], {
    stdout: 'pipe',
  })
  expect(JSON.parse(await child.stdout.text())).toEqual(['connection', 'own', 'connection'])
})
