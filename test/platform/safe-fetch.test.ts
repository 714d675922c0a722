import { describe, expect, test } from 'bun:test'
import { isIP } from 'node:net'
import { type FetchOutcome, type PostRequest, SafeFetch, type SafeFetchOptions } from '#platform/net/safe-fetch.ts'
import { systemClock } from '#platform/time/clock.ts'
import { isSpecialAddress } from '#protocols/dns/special-addresses.ts'
import { eventually } from '#test/support/app.ts'
import { startBlackHole } from '#test/support/black-hole.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { runTicks } from '#test/support/event-loop.ts'
import {
  drip,
  type HttpsReceiver,
  type HttpsReceiverOptions,
  hugeBody,
  startHttpsReceiver,
} from '#test/support/https-receiver.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const MiB = 1024 * 1024

/**
 * Trusts the authority `ca` alone, or without one those of the system. Every name resolves to the receivers' machine, which is allowed. The clock stands still unless a test moves it, so
 * that no call is late and no idle connection is closed on a busy machine.
 */
function fetchFor(
  ca: string | undefined,
  { addresses = {}, ...options }: Partial<SafeFetchOptions> & { addresses?: Record<string, readonly string[]> } = {},
): SafeFetch & Disposable {
  const fetch = new SafeFetch({
    clock: new ManualClock(),
    lookUp: async (host) => ({ kind: 'ok', addresses: addresses[host] ?? ['127.0.0.1'] }),
    findRefusal: () => undefined,
    ...(ca !== undefined && { ca: [ca] }),
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

/** The outcome without its duration. */
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

/** Peak memory that the process gained while `run` was running. */
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

  test('may have bytes as its body, but no headers about how it is sent', async () => {
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

  test.each([200, 204, 302, 400, 429, 503])('returns a response with status %d and its body', async (status) => {
    await using t = await setUp()
    const body = status === 204 ? '' : 'why'
    t.receiver.answer({ status, body, headers: { location: 'https://127.0.0.1:1/' } })
    expect(await t.post()).toEqual(answered(status, body))
    expect(t.receiver.requests).toHaveLength(1)
  })

  // Proves: notify-48
  test('does not follow a redirect', async () => {
    await using t = await setUp()
    await using other = await startHttpsReceiver({ names: ['other.test'], ca: t.receiver.ca })
    for (const status of [301, 302, 303, 307, 308]) {
      t.receiver.answer({ status, headers: { location: other.url() } })
      expect(await t.post()).toEqual(answered(status))
    }
    expect([t.receiver.requests.length, other.requests.length]).toEqual([5, 0])
  })

  test('reuses the connection of an earlier one', async () => {
    await using t = await setUp()
    for (let i = 0; i < 3; i++) expect(await t.post()).toEqual(answered(200))
    expect(t.receiver.requests.map((r) => r.connection)).toEqual([0, 0, 0])
  })

  test('to an IP address in the URL works if the certificate is for it', async () => {
    await using t = await setUp({ names: ['127.0.0.1'] })
    expect(await t.post({}, `https://127.0.0.1:${t.receiver.port}/`)).toEqual(answered(200))
    expect(await t.post({}, `https://2130706433:${t.receiver.port}/`)).toEqual(answered(200))
    await using other = await setUp()
    expect(await other.post({}, `https://127.0.0.1:${other.receiver.port}/`)).toEqual(
      failed('tls', 'The TLS certificate is not for 127.0.0.1.'),
    )
  })

  test('to an IPv6 address works', async () => {
    await using t = await setUp({ names: ['::1'], host: '::1' })
    expect(await t.post({}, t.receiver.url('::1'))).toEqual({ ...answered(200), address: '::1' })
    expect(t.receiver.requests[0]?.headers['host']).toBe(`[::1]:${t.receiver.port}`)
  })

  test('ignores a proxy in the environment', async () => {
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

describe('idle connections', () => {
  test('are not reused for another name at the same address: its certificate is checked', async () => {
    await using t = await setUp()
    expect(await t.post()).toEqual(answered(200))
    expect(await t.post({}, t.receiver.url('other.test'))).toEqual(
      failed('tls', 'The TLS certificate is not for other.test.'),
    )
    expect(t.receiver.requests).toHaveLength(1)
  })

  test('are not reused once the name resolves to another address', async () => {
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

  test('are closed after 4 seconds', async () => {
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

  test('that are lost before a response are replaced once', async () => {
    await using t = await setUp()
    await t.post()
    let count = 0
    t.receiver.answer(() => (count++ === 0 ? 'reset' : { status: 202 }))
    expect(await t.post()).toEqual(answered(202))
    expect(t.receiver.requests.map((r) => r.connection)).toEqual([0, 0, 1])
    await t.post()
    t.receiver.answer('reset')
    expect(await t.post()).toEqual(failed('connection', 'hooks.test closed the connection before it responded.'))
  })

  test('are at most 256; the longest idle is closed first', async () => {
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

  test('are closed with the client, and so are running calls; later calls are refused', async () => {
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
    expect(await hanging).toEqual(failed('connection', 'The service aborted the call before a response arrived.'))
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
      'The TLS certificate of hooks.test is not from a trusted authority; its chain must be complete, and a private authority must be in TASSIS_EXTRA_CA_FILE.',
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

  test('1.2 and 1.3 are supported, 1.1 is not', async () => {
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
  ] as const)('%s instead of a handshake fails', async (handshake, outcome) => {
    await using t = await setUp({ handshake })
    expect(await t.post()).toEqual(outcome)
  })
})

describe('allowed targets', () => {
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
      'The host name in the URL is not valid: each part must have 1 to 63 characters, and the whole name at most 253.',
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
  ])('%j is not a valid URL', async (url, reason) => {
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
  ])('%s is the address %s, which is refused without a DNS query', async (url, address) => {
    using t = refusing()
    const reason = `${address} is refused at port 443.`
    expect(await t.fetch.check(url)).toEqual({ kind: 'refused', reason })
    expect(await post(t.fetch, url)).toEqual(failed('refused', reason))
    expect(t.asked).toEqual([])
  })

  test.each([[['10.0.0.1']], [['8.8.8.8', '10.0.0.1']], [['8.8.8.8', 'fd00::1']], [['::ffff:10.0.0.1']]])(
    'a name that resolves to %j is refused as a whole, without revealing the address',
    async (addresses) => {
      using t = refusing(addresses)
      const reason = 'hooks.test resolves to an address that is refused at port 8443.'
      expect(await t.fetch.check('https://hooks.test:8443/')).toEqual({ kind: 'refused', reason })
      expect(await post(t.fetch, 'https://hooks.test:8443/')).toEqual(failed('refused', reason))
    },
  )

  test('localhost is this machine whatever DNS answers, and other names of one label need an address', async () => {
    using lying = refusing(['8.8.8.8'])
    for (const host of ['localhost', 'LOCALHOST.', 'a.localhost'])
      expect(await lying.fetch.check(`https://${host}/`)).toMatchObject({ kind: 'refused' })
    expect(lying.asked).toEqual([])
    expect(await lying.fetch.check('https://intern/')).toEqual({ kind: 'ok' })
    using silent = refusing()
    const reason = 'intern has no address in DNS.'
    expect(await silent.fetch.check('https://intern/')).toEqual({ kind: 'refused', reason })
  })

  test('a name that does not resolve is distinguished, and fails as DNS', async () => {
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

  test('names are resolved in ASCII, without the final dot and the fragment', async () => {
    using t = refusing(['8.8.8.8'])
    expect(await t.fetch.check('https://BÜCHER.test./#x')).toEqual({ kind: 'ok' })
    expect(t.asked).toEqual(['xn--bcher-kva.test'])
  })

  test('a check without an answer from DNS ends after 5 seconds', async () => {
    const clock = new ManualClock()
    using fetch = fetchFor(undefined, { clock, ca: undefined, lookUp: () => new Promise(() => {}) })
    const check = fetch.check('https://hooks.test/')
    clock.advance(5000)
    expect(await check).toEqual({
      kind: 'unresolvable',
      reason: 'The address of hooks.test could not be looked up in time.',
    })
  })
})

describe('addresses', () => {
  test('are dialled one after the other when one refuses, IPv6 only without IPv4', async () => {
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

  test('are limited to three', async () => {
    await using t = await setUp({ host: '127.0.0.9' })
    const addresses = { 'hooks.test': Array.from({ length: 8 }, (_, i) => `127.0.0.${i + 2}`) }
    using fetch = fetchFor(t.receiver.caPem, { addresses })
    // Only one of the eight addresses answers, and their order is random: with this many calls, some have it among
    // their three and some do not.
    const outcomes = await Promise.all(Array.from({ length: 60 }, () => post(fetch, t.receiver.url())))
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['response', 'failed']))
  })

  test('of localhost include IPv4 and IPv6: a program may listen on ::1 alone', async () => {
    await using six = await setUp({ names: ['localhost', 'app.localhost'], host: '::1' })
    for (const host of ['localhost', 'app.localhost'])
      expect(await six.post({}, six.receiver.url(host))).toEqual({ ...answered(200), address: '::1' })
  })

  test('are resolved once per call: a changing answer has no effect', async () => {
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
  ])('with a body of 1 GB %s are truncated, and cost no memory', async (_, answer) => {
    await using t = await setUp()
    t.receiver.answer(answer)
    const grown = await peakBytesOf(async () => {
      expect(await t.post({ maxResponseBytes: 100 })).toEqual(answered(200, 'a'.repeat(100)))
      await eventually(() => t.receiver.connections.open === 0)
    })
    expect(t.receiver.sentBytes).toBeLessThan(64 * MiB)
    expect(grown).toBeLessThan(64 * MiB)
  })

  test('that are compressed are not decompressed', async () => {
    await using t = await setUp()
    const bomb = Bun.gzipSync(Buffer.alloc(100 * MiB))
    t.receiver.answer({ headers: { 'content-encoding': 'gzip' }, body: bomb })
    const outcome = await t.post({ maxResponseBytes: 200_000 })
    expect(outcome).toEqual(answered(200, new TextDecoder().decode(bomb)))
  })

  test('of exactly the limit are whole and their connection kept; one more octet is cut', async () => {
    await using t = await setUp()
    t.receiver.answer({ body: '12345' })
    expect(await t.post({ maxResponseBytes: 5 })).toEqual(answered(200, '12345'))
    await t.post({ maxResponseBytes: 5 })
    expect(t.receiver.connections.accepted).toBe(1)
    expect(await t.post({ maxResponseBytes: 4 })).toEqual(answered(200, '1234'))
    expect(await t.post({ maxResponseBytes: 0 })).toEqual(answered(200, ''))
  })

  test('are UTF-8: invalid bytes are replaced, a truncated character is dropped', async () => {
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

  test('may have interim responses before them, but only a few', async () => {
    await using t = await setUp()
    const interim = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'
    t.receiver.answer({ raw: `${interim.repeat(8)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok` })
    expect(await t.post()).toEqual(answered(200, 'ok'))
    t.receiver.answer({ raw: interim.repeat(9) })
    expect(await t.post()).toEqual(failed('protocol', 'hooks.test sent too many interim responses.'))
  })

  const NOT_HTTP = failed('protocol', 'hooks.test sent a response that is not HTTP.')
  const TOO_LARGE = failed('protocol', 'hooks.test sent a response with too large a head.')
  const CLOSED = failed('connection', 'hooks.test closed the connection before it responded.')
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
    ['that end in their head', 'HTTP/1.1 200 O', CLOSED],
    ['that are empty', '', CLOSED],
  ])('%s are a failure', async (_, raw, outcome) => {
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
  ])('%s costs no memory: the connection is closed', async (_, raw, outcome) => {
    await using t = await setUp()
    t.receiver.answer({ raw: raw() })
    const grown = await peakBytesOf(async () => {
      expect(await t.post()).toEqual(outcome)
      await eventually(() => t.receiver.connections.open === 0)
    })
    expect(grown).toBeLessThan(64 * MiB)
  })

  test('that break off succeed with the body received so far', async () => {
    await using t = await setUp()
    const raw = 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc'
    t.receiver.answer({ raw, after: 'end' })
    expect(await t.post()).toEqual(answered(200, 'abc'))
    // Head, body and a broken chunk in one piece.
    t.receiver.answer({ raw: 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n' })
    expect(await t.post()).toEqual(answered(200, 'abc'))
    // The system may discard data that came before a reset.
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
    await t.receiver.received(3)
    await Bun.sleep(50)
    await runTicks()
    expect(isOver).toBe(false)
    release.resolve()
    expect(await outcome).toMatchObject({ kind: 'response', status: 200 })
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('that switch to another protocol are a failure, and close the connection', async () => {
    await using t = await setUp()
    t.receiver.answer({ raw: 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n' })
    expect(await t.post()).toEqual(failed('protocol', 'hooks.test switched to another protocol without being asked.'))
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('are a failure if the connection is reset before them', async () => {
    await using t = await setUp()
    t.receiver.answer('reset')
    expect(await t.post()).toEqual(CLOSED)
    expect(t.receiver.requests).toHaveLength(1)
  })
})

describe('the time limit', () => {
  const LATE = failed('timeout', 'hooks.test did not answer within 10 seconds.')

  test('covers DNS', async () => {
    const clock = new ManualClock()
    using fetch = fetchFor(undefined, { clock, ca: undefined, lookUp: () => new Promise(() => {}) })
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
  ] as const)('covers a response that %s', async (_, answer) => {
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

  test('truncates a body that drips: the response counts with what was received', async () => {
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
    await runTicks()
    clock.advance(10_000)
    const response = await outcome
    expect(response).toMatchObject({ kind: 'response', status: 200 })
    expect(response.kind === 'response' && response.body).toMatch(/^a{4,}$/)
    await eventually(() => t.receiver.connections.open === 0)
  })

  test('measures the duration', async () => {
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

  test('is shared among the addresses: after a silent one has used its part, the next one is dialled', async () => {
    const clock = new ManualClock()
    await using t = await setUp({}, { clock })
    await using _ = await startBlackHole('127.0.0.2', t.receiver.port)
    using fetch = fetchFor(t.receiver.caPem, { clock, addresses: { 'hooks.test': ['127.0.0.1', '127.0.0.2'] } })
    // The order is random: with this many calls, some try the silent address first.
    let ended = 0
    const outcomes = Array.from({ length: 20 }, () => post(fetch, t.receiver.url()).finally(() => ended++))
    // The system has accepted every connection to the first address by now; the handshakes take longer.
    await runTicks()
    await eventually(() => ended === t.receiver.connections.accepted)
    clock.advance(4999)
    await Bun.sleep(20)
    await runTicks()
    expect(ended).toBe(t.receiver.connections.accepted)
    expect(ended).toBeLessThan(20)
    clock.advance(1)
    expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => answered(200)))
    using alone = fetchFor(t.receiver.caPem, { clock, addresses: { 'hooks.test': ['127.0.0.2'] } })
    const late = post(alone, t.receiver.url())
    clock.advance(9999)
    expect(await Promise.race([late, Bun.sleep(20)])).toBeUndefined()
    clock.advance(1)
    expect(await late).toEqual(LATE)
  })

  test('can be cut short by the caller', async () => {
    await using t = await setUp()
    t.receiver.answer('hang')
    const controller = new AbortController()
    const outcome = t.post({ signal: controller.signal })
    await t.receiver.received(1)
    controller.abort()
    const ended = failed('connection', 'The service aborted the call before a response arrived.')
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

test("a connection without a descriptor is the service's failure, not the endpoint's", async () => {
  const program = `${import.meta.dir}/too-many-files.ts`
  await using child = Bun.spawn(['bash', '-c', `ulimit -n 256; exec ${process.execPath} ${program}`], {
    stdout: 'pipe',
  })
  expect(JSON.parse(await child.stdout.text())).toEqual(['connection', 'own', 'connection'])
})

describe('the head of a response', () => {
  const HEAD = { method: 'HEAD', headers: { 'user-agent': 'test' }, timeoutMs: 60_000 } as const

  test('is read over https, with the name of the certificate', async () => {
    const receiver = await startHttpsReceiver({ names: ['shop.test'] })
    receiver.answer({ status: 302, headers: { location: '/next' } })
    try {
      using fetch = fetchFor(receiver.caPem)
      const url = receiver.url('shop.test')
      expect(await fetch.readHead(url, HEAD)).toEqual({ kind: 'response', status: 302, location: '/next' })
      expect(receiver.requests[0]).toMatchObject({ method: 'HEAD', serverName: 'shop.test' })
      expect(receiver.requests[0]?.headers).toMatchObject({ 'user-agent': 'test', 'accept-encoding': 'identity' })
      expect(await fetch.readHead(url.replace('shop.test', 'other.test'), HEAD)).toEqual({
        kind: 'failed',
        reason: 'The TLS certificate is not for other.test.',
      })
      using distrustful = fetchFor(undefined)
      expect(await distrustful.readHead(url, HEAD)).toMatchObject({ kind: 'failed' })
    } finally {
      await receiver.close()
    }
  })

  test('is all that is read, however long the body, and a silent server ends with the time limit', async () => {
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
      using fetch = fetchFor(undefined, { clock: systemClock })
      const base = `http://any.test:${server.port}`
      expect(await fetch.readHead(`${base}/`, { ...HEAD, method: 'GET' })).toEqual({
        kind: 'response',
        status: 200,
        location: undefined,
      })
      // The connection is closed; otherwise the test times out.
      await abandoned.promise
      expect(await fetch.readHead(`${base}/silent`, { ...HEAD, timeoutMs: 300 })).toEqual({
        kind: 'failed',
        reason: 'any.test did not answer within 0.3 seconds.',
      })
    } finally {
      await server.stop(true)
    }
  })

  test.each([
    ['ftp://a.test/', 'must begin with https:// or http://'],
    ['http://a.test:25/', 'Port 25'],
    ['http://a.test/', 'a.test resolves to an address that is private'],
    ['http://10.0.0.1/', '10.0.0.1 is private'],
  ])('is not asked of %j', async (url, reason) => {
    using fetch = fetchFor(undefined, { findRefusal: () => 'is private' })
    expect(await fetch.readHead(url, HEAD)).toEqual({ kind: 'refused', reason: expect.stringContaining(reason) })
  })
})
