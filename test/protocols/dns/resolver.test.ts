import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { randomBelow } from '#platform/ids.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { type ResolverOptions, StubResolver } from '#protocols/dns/resolver.ts'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const resolverFor = (servers: DnsServer | readonly string[], options: Partial<ResolverOptions> = {}) =>
  new StubResolver({
    servers: 'address' in servers ? [servers.address] : servers,
    clock: new ManualClock(),
    randomId: () => randomBelow(65_536),
    ...options,
  })

/** Of the service discard, below those that systems assign to servers: no test listens there. */
const CLOSED_PORT = '127.0.0.1:9'

describe('records', () => {
  test('MX exchanges are in lower case without a trailing dot, with their preference', async () => {
    await using server = await startDnsServer({
      'example.com': { MX: [{ preference: 5, exchange: 'MX1.Example.com.' }] },
    })
    using resolver = resolverFor(server)
    expect(await resolver.mx('Example.COM.')).toEqual({
      kind: 'ok',
      records: [{ preference: 5, exchange: 'mx1.example.com' }],
      ttlSeconds: 300,
    })
  })

  test('a null MX is an exchange of no text', async () => {
    await using server = await startDnsServer({ 'example.com': { MX: [{ preference: 0, exchange: '.' }] } })
    using resolver = resolverFor(server)
    expect(await resolver.mx('example.com')).toEqual({
      kind: 'ok',
      records: [{ preference: 0, exchange: '' }],
      ttlSeconds: 300,
    })
  })

  test('the strings of one TXT record are joined, those of two records are not', async () => {
    await using server = await startDnsServer({
      'k._domainkey.example.com': { TXT: [['v=DKIM1; p=AB', 'CD'], 'other'] },
    })
    using resolver = resolverFor(server)
    expect(await resolver.txt('k._domainkey.example.com')).toEqual({
      kind: 'ok',
      records: ['v=DKIM1; p=ABCD', 'other'],
      ttlSeconds: 300,
    })
  })

  test('a character split across two TXT strings is decoded', async () => {
    const bytes = Buffer.from('é')
    await using server = await startDnsServer({
      'example.com': { TXT: [[bytes.subarray(0, 1), bytes.subarray(1)] as unknown as string[]] },
    })
    using resolver = resolverFor(server)
    expect(await resolver.txt('example.com')).toMatchObject({ records: ['é'] })
  })

  test('returns addresses of both kinds, and the name of an address', async () => {
    await using server = await startDnsServer({
      'host.example.com': { A: ['192.0.2.1', '192.0.2.2'], AAAA: ['2001:db8::1'] },
      '1.2.0.192.in-addr.arpa': { PTR: ['Host.example.com.'] },
      '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa': { PTR: ['six.example.com'] },
    })
    using resolver = resolverFor(server)
    expect(await resolver.a('host.example.com')).toMatchObject({ records: ['192.0.2.1', '192.0.2.2'] })
    expect(await resolver.aaaa('host.example.com')).toMatchObject({ records: ['2001:db8::1'] })
    expect(await resolver.ptr('192.0.2.1')).toMatchObject({ records: ['host.example.com'] })
    expect(await resolver.ptr('2001:db8::1')).toMatchObject({ records: ['six.example.com'] })
    expect(await resolver.ptr('1.2.0.192.in-addr.arpa')).toMatchObject({ records: ['host.example.com'] })
  })
})

test('returns the name servers of a zone, and none of the target of a CNAME', async () => {
  await using server = await startDnsServer({
    'example.com': { NS: ['NS2.example.net.', 'ns1.example.net'] },
    'alias.example.com': { CNAME: 'example.com' },
    'www.example.com': { A: ['192.0.2.1'] },
  })
  using resolver = resolverFor(server)
  expect(await resolver.ns('example.com')).toMatchObject({ records: ['ns2.example.net', 'ns1.example.net'] })
  expect(await resolver.ns('alias.example.com')).toEqual({ kind: 'nodata' })
  expect(await resolver.ns('www.example.com')).toEqual({ kind: 'nodata' })
})

describe('missing records', () => {
  // Proves: delivery-8
  test('no record of the type, no name, failure and REFUSED are distinguished', async () => {
    await using server = await startDnsServer({
      'example.com': { A: ['192.0.2.1'] },
      'fail.example.com': 'SERVFAIL',
      'refused.example.com': 'REFUSED',
    })
    using resolver = resolverFor(server)
    expect(await resolver.mx('example.com')).toEqual({ kind: 'nodata' })
    expect(await resolver.mx('none.example.com')).toEqual({ kind: 'nxdomain' })
    expect(await resolver.mx('fail.example.com')).toEqual({ kind: 'servfail' })
    expect(await resolver.mx('refused.example.com')).toEqual({ kind: 'refused' })
  })

  // Proves: delivery-4
  test.each(['mx', 'a', 'aaaa', 'txt', 'cname', 'ns', 'ptr'] as const)(
    'a referral is a failure, not a missing record: %s',
    async (type) => {
      await using server = await startDnsServer({ 'lame.example.com': 'REFERRAL' })
      using resolver = resolverFor(server)
      expect(await resolver[type]('lame.example.com')).toEqual({ kind: 'servfail' })
    },
  )

  test('a referral at the end of an alias is a failure', async () => {
    const zone: Zone = { 'alias.example.com': { CNAME: 'lame.example.net' }, 'lame.example.net': 'REFERRAL' }
    await using server = await startDnsServer(zone, { followsCnames: false })
    using resolver = resolverFor(server)
    expect(await resolver.txt('alias.example.com')).toEqual({ kind: 'servfail' })
  })

  test('a name that only has names below it exists', async () => {
    await using server = await startDnsServer({ 'a.b.example.com': { A: ['192.0.2.1'] } })
    using resolver = resolverFor(server)
    expect(await resolver.a('b.example.com')).toEqual({ kind: 'nodata' })
  })

  test.each([
    '',
    '.',
    'a..b',
    `${'a'.repeat(64)}.com`,
    'a b.com',
    'bücher.example',
    `${'a.'.repeat(127)}com`,
    'x\0y.com',
  ])('a name that is invalid in DNS is not queried: %j', async (name) => {
    await using server = await startDnsServer({})
    using resolver = resolverFor(server)
    expect(await resolver.a(name)).toEqual({ kind: 'nxdomain' })
    expect(server.queries).toEqual([])
  })

  test('a silent server times out after every attempt', async () => {
    await using server = await startDnsServer({ 'example.com': 'SILENCE' })
    const clock = new ManualClock()
    using resolver = resolverFor(server, { clock, timeoutMs: 5000, attempts: 2 })
    const answer = resolver.a('example.com')
    await server.received(1)
    clock.advance(5000)
    await server.received(2)
    clock.advance(5000)
    expect(await answer).toEqual({ kind: 'timeout' })
    expect(server.queries).toHaveLength(2)
  })

  test('a server that cannot be reached is a timeout without waiting', async () => {
    using resolver = resolverFor([CLOSED_PORT], { clock: new ManualClock() })
    expect(await resolver.a('example.com')).toEqual({ kind: 'timeout' })
  })

  test('a server that the system cannot connect to is a timeout', async () => {
    // Without SO_BROADCAST the system rejects this address before anything is sent.
    using resolver = resolverFor(['255.255.255.255:53'], { clock: new ManualClock() })
    expect(await resolver.a('example.com')).toEqual({ kind: 'timeout' })
  })

  test('a server at an IPv6 address is asked', async () => {
    const asked: number[] = []
    const server = await Bun.udpSocket({
      hostname: '::1',
      socket: {
        data(socket, query, port, address) {
          asked.push(port)
          const response = Buffer.from(query)
          // A response without an answer: NXDOMAIN.
          response.set([0x81, 0x83], 2)
          socket.send(response, port, address)
        },
      },
    })
    using resolver = resolverFor([`[::1]:${server.port}`])
    expect(await resolver.a('example.com')).toMatchObject({ kind: 'nxdomain' })
    expect(asked).toHaveLength(1)
    server.close()
  })

  test('an unreadable response is a failed attempt', async () => {
    await using server = await startDnsServer({ 'example.com': 'MALFORMED' })
    using resolver = resolverFor(server, { clock: new ManualClock() })
    expect(await resolver.a('example.com')).toEqual({ kind: 'timeout' })
    expect(server.queries).toHaveLength(2)
  })
})

describe('forged responses', () => {
  test('a wrong id, a wrong question and a wrong source are ignored', async () => {
    await using server = await startDnsServer({ 'example.com': { A: ['192.0.2.1'], forgedFirst: true } })
    using resolver = resolverFor(server)
    expect(await resolver.a('example.com')).toEqual({ kind: 'ok', records: ['192.0.2.1'], ttlSeconds: 300 })
  })

  test('a response with a wrong id alone is no response', async () => {
    await using server = await startDnsServer({ 'example.com': 'WRONG_ID' })
    const clock = new ManualClock()
    using resolver = resolverFor(server, { clock, attempts: 1 })
    const answer = resolver.a('example.com')
    await server.received(1)
    clock.advance(5000)
    expect(await answer).toEqual({ kind: 'timeout' })
  })
})

describe('TCP and EDNS', () => {
  const many = Array.from({ length: 100 }, (_, i) => `192.0.2.${i}`)

  test('a truncated response is requested again over TCP', async () => {
    await using server = await startDnsServer({ 'example.com': { A: many } })
    using resolver = resolverFor(server)
    expect(await resolver.a('example.com')).toEqual({ kind: 'ok', records: many, ttlSeconds: 300 })
    expect(server.queries.map((q) => q.transport)).toEqual(['udp', 'tcp'])
  })

  test('a response of 513 to 1232 bytes arrives over UDP', async () => {
    const text = 'x'.repeat(800)
    await using server = await startDnsServer({ 'example.com': { TXT: [text] } })
    using resolver = resolverFor(server)
    expect(await resolver.txt('example.com')).toMatchObject({ records: [text] })
    expect(server.queries.map((q) => q.transport)).toEqual(['udp'])
  })

  test('a TCP connection that is cut off is a failed attempt', async () => {
    await using server = await startDnsServer({ 'example.com': { A: many, tcp: 'CLOSE' } })
    using resolver = resolverFor(server, { clock: new ManualClock() })
    expect(await resolver.a('example.com')).toEqual({ kind: 'timeout' })
    expect(server.queries.map((q) => q.transport)).toEqual(['udp', 'tcp', 'udp', 'tcp'])
  })

  test('a silent TCP connection times out', async () => {
    await using server = await startDnsServer({ 'example.com': { A: many, tcp: 'SILENCE' } })
    const clock = new ManualClock()
    using resolver = resolverFor(server, { clock, attempts: 1 })
    const answer = resolver.a('example.com')
    await server.received(2)
    clock.advance(5000)
    expect(await answer).toEqual({ kind: 'timeout' })
  })

  test('a server without EDNS support is asked again without EDNS', async () => {
    await using server = await startDnsServer({ 'example.com': { A: ['192.0.2.1'], refusesEdns: true } })
    using resolver = resolverFor(server)
    expect(await resolver.a('example.com')).toMatchObject({ kind: 'ok', records: ['192.0.2.1'] })
    expect(server.queries).toHaveLength(2)
  })
})

describe('CNAMEs', () => {
  const chain = (links: number): Zone => ({
    ...Object.fromEntries(
      Array.from({ length: links }, (_, i) => [`n${i}.example.com`, { CNAME: `n${i + 1}.example.com` }]),
    ),
    [`n${links}.example.com`]: { A: ['192.0.2.1'], ttl: 60 },
  })

  test.each([true, false])(
    'are followed, within a response or across responses (%p), and the shortest TTL counts',
    async (followsCnames) => {
      await using server = await startDnsServer(chain(3), { followsCnames })
      using resolver = resolverFor(server)
      expect(await resolver.a('n0.example.com')).toEqual({ kind: 'ok', records: ['192.0.2.1'], ttlSeconds: 60 })
      expect(server.queries).toHaveLength(followsCnames ? 1 : 4)
    },
  )

  test.each([true, false])('eight are followed, nine are a loop (in one response: %p)', async (followsCnames) => {
    await using eight = await startDnsServer(chain(8), { followsCnames })
    await using nine = await startDnsServer(chain(9), { followsCnames })
    using a = resolverFor(eight)
    using b = resolverFor(nine)
    expect(await a.a('n0.example.com')).toMatchObject({ kind: 'ok' })
    expect(await b.a('n0.example.com')).toEqual({ kind: 'loop' })
  })

  test.each([true, false])('that refer to each other are a loop (in one response: %p)', async (followsCnames) => {
    await using server = await startDnsServer(
      { 'a.example.com': { CNAME: 'b.example.com' }, 'b.example.com': { CNAME: 'a.example.com' } },
      { followsCnames },
    )
    using resolver = resolverFor(server)
    expect(await resolver.mx('a.example.com')).toEqual({ kind: 'loop' })
  })

  test.each([true, false])(
    'the end of the chain decides between nodata and nxdomain (in one response: %p)',
    async (followsCnames) => {
      await using server = await startDnsServer(
        {
          'alias.example.com': { CNAME: 'host.example.com' },
          'host.example.com': { A: ['192.0.2.1'] },
          'dangling.example.com': { CNAME: 'gone.example.net' },
          'failing.example.com': { CNAME: 'fail.example.net' },
          'fail.example.net': 'SERVFAIL',
        },
        { followsCnames },
      )
      using resolver = resolverFor(server)
      expect(await resolver.mx('alias.example.com')).toEqual({ kind: 'nodata' })
      expect(server.queries).toHaveLength(followsCnames ? 1 : 2)
      expect(await resolver.mx('dangling.example.com')).toEqual({ kind: 'nxdomain' })
      expect(await resolver.mx('failing.example.com')).toEqual({ kind: 'servfail' })
    },
  )

  test('cname() returns the alias itself', async () => {
    await using server = await startDnsServer({
      'alias.example.com': { CNAME: 'Host.example.com' },
      'host.example.com': { A: ['192.0.2.1'] },
    })
    using resolver = resolverFor(server)
    expect(await resolver.cname('alias.example.com')).toEqual({
      kind: 'ok',
      records: ['host.example.com'],
      ttlSeconds: 300,
    })
    expect(await resolver.cname('host.example.com')).toEqual({ kind: 'nodata' })
  })
})

describe('several servers', () => {
  test.each(['SERVFAIL', 'REFUSED', 'MALFORMED', 'REFERRAL'] as const)(
    'the next one is asked after %s',
    async (fault) => {
      await using first = await startDnsServer({ 'example.com': fault })
      await using second = await startDnsServer({ 'example.com': { A: ['192.0.2.1'] } })
      using resolver = resolverFor([first.address, second.address])
      expect(await resolver.a('example.com')).toMatchObject({ records: ['192.0.2.1'] })
    },
  )

  test('the next one is asked after silence', async () => {
    await using first = await startDnsServer({ 'example.com': 'SILENCE' })
    await using second = await startDnsServer({ 'example.com': { A: ['192.0.2.1'] } })
    const clock = new ManualClock()
    using resolver = resolverFor([first.address, second.address], { clock })
    const answer = resolver.a('example.com')
    await first.received(1)
    clock.advance(5000)
    expect(await answer).toMatchObject({ records: ['192.0.2.1'] })
  })

  test('nxdomain is an answer: no other server is asked', async () => {
    await using first = await startDnsServer({})
    await using second = await startDnsServer({ 'example.com': { A: ['192.0.2.1'] } })
    using resolver = resolverFor([first.address, second.address])
    expect(await resolver.a('example.com')).toEqual({ kind: 'nxdomain' })
    expect(second.queries).toEqual([])
  })

  test('a failure response outranks silence', async () => {
    await using first = await startDnsServer({ 'example.com': 'REFUSED' })
    await using second = await startDnsServer({ 'example.com': 'SERVFAIL' })
    using resolver = resolverFor([first.address, CLOSED_PORT, second.address], { clock: new ManualClock() })
    expect(await resolver.a('example.com')).toEqual({ kind: 'servfail' })
    expect(first.queries).toHaveLength(1)
  })

  test.each(['dns.example.com', '127.0.0.1:0', '127.0.0.1:99999', '[127.0.0.1]:53', '', '::1]:53'])(
    'an invalid server address is a TypeError: %j',
    (text) => {
      expect(() => resolverFor([text])).toThrow(TypeError)
    },
  )
})

describe('the cache', () => {
  const counting = async (zone: Zone, options: Partial<ResolverOptions> = {}, negativeTtlSeconds?: number | null) => {
    const server = await startDnsServer(zone, negativeTtlSeconds === undefined ? {} : { negativeTtlSeconds })
    const clock = new ManualClock()
    const resolver = resolverFor(server, { clock, ...options })
    return { server, clock, resolver, [Symbol.asyncDispose]: () => server.close() }
  }

  /**
   * Returns the seconds for which the A record of example.com is cached, found by asking just before and at the end of
   * them.
   */
  async function expectKept(
    { server, clock, resolver }: { server: DnsServer; clock: ManualClock; resolver: ReturnType<typeof resolverFor> },
    seconds: number,
  ) {
    await resolver.a('example.com')
    clock.advance(seconds * 1000 - 1)
    await resolver.a('example.com')
    expect(server.queries).toHaveLength(1)
    clock.advance(1)
    await resolver.a('example.com')
    expect(server.queries).toHaveLength(2)
  }

  test('keeps an answer for its TTL, in any spelling of the name', async () => {
    await using it = await counting({ 'example.com': { A: ['192.0.2.1'], ttl: 60 } })
    await expectKept(it, 60)
    await it.resolver.a('EXAMPLE.com.')
    expect(it.server.queries).toHaveLength(2)
  })

  test('returns the remaining TTL', async () => {
    await using it = await counting({ 'example.com': { A: ['192.0.2.1'], ttl: 60 } })
    await it.resolver.a('example.com')
    it.clock.advance(20_000)
    expect(await it.resolver.a('example.com')).toEqual({ kind: 'ok', records: ['192.0.2.1'], ttlSeconds: 40 })
  })

  test('keeps nothing longer than an hour', async () => {
    await using it = await counting({ 'example.com': { A: ['192.0.2.1'], ttl: 86_400 } })
    await expectKept(it, 3600)
  })

  test('keeps a negative answer as long as the SOA says', async () => {
    await using it = await counting({}, {}, 30)
    await expectKept(it, 30)
  })

  test('keeps a negative answer no longer than 300 s', async () => {
    await using it = await counting({ 'example.com': { MX: [] } }, {}, 3000)
    await expectKept(it, 300)
  })

  test('keeps a negative answer without a SOA only briefly', async () => {
    await using it = await counting({}, {}, null)
    await expectKept(it, 5)
  })

  test('keeps a failure for 5 s', async () => {
    await using it = await counting({ 'example.com': 'SERVFAIL' })
    await expectKept(it, 5)
  })

  test('does not keep an answer with TTL 0, nor anything with cacheEntries 0', async () => {
    await using zero = await counting({ 'example.com': { A: ['192.0.2.1'], ttl: 0 } })
    await zero.resolver.a('example.com')
    await zero.resolver.a('example.com')
    expect(zero.server.queries).toHaveLength(2)
    await using none = await counting({ 'example.com': { A: ['192.0.2.1'] } }, { cacheEntries: 0 })
    await none.resolver.a('example.com')
    await none.resolver.a('example.com')
    expect(none.server.queries).toHaveLength(2)
  })

  test('evicts the least recently used answer', async () => {
    const names = ['a.example.com', 'b.example.com', 'c.example.com'] as const
    await using it = await counting(Object.fromEntries(names.map((n) => [n, { A: ['192.0.2.1'] }])), {
      cacheEntries: 2,
    })
    const [a, b, c] = names
    for (const name of [a, b, a, c, a]) await it.resolver.a(name)
    expect(it.server.queries.map((q) => q.name)).toEqual([a, b, c])
    await it.resolver.a(b)
    expect(it.server.queries.map((q) => q.name)).toEqual([a, b, c, b])
  })

  test('identical concurrent questions are sent once', async () => {
    await using it = await counting({ 'example.com': { A: ['192.0.2.1'] } }, { cacheEntries: 0 })
    const answers = await Promise.all(Array.from({ length: 50 }, () => it.resolver.a('example.com')))
    expect(new Set(answers.map((a) => a.kind))).toEqual(new Set(['ok']))
    expect(it.server.queries).toHaveLength(1)
    await it.resolver.a('example.com')
    expect(it.server.queries).toHaveLength(2)
  })
})

describe('close', () => {
  test('ends queries in flight, and later ones, with timeout', async () => {
    await using server = await startDnsServer({ 'example.com': 'SILENCE' })
    const resolver = resolverFor(server)
    const answer = resolver.a('example.com')
    await server.received(1)
    resolver.close()
    expect(await answer).toEqual({ kind: 'timeout' })
    expect(await resolver.a('other.example.com')).toEqual({ kind: 'timeout' })
    expect(server.queries).toHaveLength(1)
  })
})

test('10,000 lookups leave no socket and no timer behind', async () => {
  const zone: Zone = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, i) => [`n${i}.example.com`, i % 10 === 0 ? 'SERVFAIL' : { A: ['192.0.2.1'] }]),
  )
  await using server = await startDnsServer(zone)
  let timers = 0
  const clock: Clock = {
    ...systemClock,
    after(delayMs, run) {
      timers++
      const timer = systemClock.after(delayMs, run)
      return {
        cancel: () => {
          timers--
          timer.cancel()
        },
      }
    },
  }
  const openFiles = () => readdirSync('/proc/self/fd').length
  using resolver = resolverFor(server, { clock, cacheEntries: 0 })
  const before = openFiles()
  const answers = await Promise.all(Array.from({ length: 10_000 }, (_, i) => resolver.a(`n${i}.example.com`)))
  expect(answers.filter((a) => a.kind === 'ok')).toHaveLength(9000)
  expect(answers.filter((a) => a.kind === 'servfail')).toHaveLength(1000)
  expect(timers).toBe(0)
  await eventually(() => openFiles() <= before + 1)
})

describe('isAnswering', () => {
  test('bypasses the cache and is shared by concurrent callers; REFUSED is a response, SERVFAIL and silence are not', async () => {
    const zone: Zone = {}
    await using server = await startDnsServer(zone)
    const clock = new ManualClock()
    using resolver = resolverFor(server, { clock })
    expect(await Promise.all([resolver.isAnswering(), resolver.isAnswering()])).toEqual([true, true])
    expect(server.queries).toEqual([{ name: '.', type: 'NS', transport: 'udp' }])
    for (const [answer, isAnswering] of [
      ['REFUSED', true],
      ['SERVFAIL', false],
    ] as const) {
      zone['.'] = answer
      expect([answer, await resolver.isAnswering()]).toEqual([answer, isAnswering])
    }
    zone['.'] = 'SILENCE'
    const asked = server.queries.length
    const answer = resolver.isAnswering()
    for (const round of [1, 2]) {
      await server.received(asked + round)
      clock.advance(5000)
    }
    expect(await answer).toBe(false)
  })
})
