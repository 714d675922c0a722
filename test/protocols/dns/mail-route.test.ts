import { describe, expect, test } from 'bun:test'
import { randomBelow, shuffle } from '#platform/ids.ts'
import { resolveHostAddresses, resolveMailHosts } from '#protocols/dns/mail-route.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { type NameEntry, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

/** A real server for `zone` with a resolver; its clock is stopped, so silence ends only on `close`. */
async function startDns(zone: Zone) {
  const server = await startDnsServer(zone)
  const resolver = new StubResolver({
    servers: [server.address],
    clock: new ManualClock(),
    randomId: () => randomBelow(65_536),
  })
  return {
    resolver,
    [Symbol.asyncDispose]: () => {
      resolver.close()
      return server.close()
    },
  }
}

const asGiven = <T>(items: readonly T[]): T[] => [...items]

async function resolveRoute(zone: Zone, domain = 'example.com') {
  await using it = await startDns(zone)
  return await resolveMailHosts(it.resolver, domain, { shuffle: asGiven })
}

async function resolveAddresses(entry: NameEntry | 'NXDOMAIN', ipv6: boolean) {
  await using it = await startDns({ 'mx.example.com': entry })
  return await resolveHostAddresses(it.resolver, 'mx.example.com', { ipv6 })
}

const mx = (preference: number, exchange: string) => ({ preference, exchange })

describe('the hosts of a domain', () => {
  test('are sorted by preference, each once, at its best preference', async () => {
    const zone = {
      'example.com': {
        MX: [mx(20, 'b.example'), mx(10, 'a.example'), mx(30, 'A.example.'), mx(5, 'c.example')],
        ttl: 77,
      },
    }
    expect(await resolveRoute(zone)).toEqual({
      kind: 'ok',
      hosts: [
        { host: 'c.example', preference: 5 },
        { host: 'a.example', preference: 10 },
        { host: 'b.example', preference: 20 },
      ],
      implicit: false,
      ttlSeconds: 77,
    })
  })

  test('of equal preference have the order of the shuffle', async () => {
    await using it = await startDns({
      'example.com': { MX: [mx(10, 'a.example'), mx(10, 'b.example'), mx(5, 'c.example')] },
    })
    const found = await resolveMailHosts(it.resolver, 'example.com', { shuffle: (items) => [...items].reverse() })
    expect(found).toMatchObject({ hosts: [{ host: 'c.example' }, { host: 'b.example' }, { host: 'a.example' }] })
    const firsts = new Set<string | undefined>()
    for (let i = 0; i < 200; i++) {
      const shuffledRoute = await resolveMailHosts(it.resolver, 'example.com', { shuffle: shuffle })
      firsts.add(shuffledRoute.kind === 'ok' ? shuffledRoute.hosts[1]?.host : undefined)
    }
    expect(firsts).toEqual(new Set(['a.example', 'b.example']))
  })

  test('are at most twenty', async () => {
    const found = await resolveRoute({
      'example.com': { MX: Array.from({ length: 60 }, (_, i) => mx(i, `m${i}.example`)) },
    })
    expect(found.kind === 'ok' ? found.hosts.map((h) => h.preference) : found).toEqual(
      Array.from({ length: 20 }, (_, i) => i),
    )
  })

  test('are found at the end of a CNAME', async () => {
    const zone = { 'example.com': { CNAME: 'target.example' }, 'target.example': { MX: [mx(10, 'a.example')] } }
    expect(await resolveRoute(zone)).toMatchObject({ kind: 'ok', hosts: [{ host: 'a.example' }], implicit: false })
  })

  test.each(['', '.'])('an MX of %j alone is a null MX', async (exchange) => {
    expect(await resolveRoute({ 'example.com': { MX: [mx(0, exchange)], A: ['192.0.2.1'] } })).toEqual({
      kind: 'null-mx',
    })
  })

  test('ignore a null MX beside other records', async () => {
    expect(await resolveRoute({ 'example.com': { MX: [mx(0, '.'), mx(10, 'a.example')] } })).toMatchObject({
      kind: 'ok',
      hosts: [{ host: 'a.example', preference: 10 }],
    })
  })

  test('ignore an MX that holds an IP address; a domain with only such records has no valid host', async () => {
    expect(await resolveRoute({ 'example.com': { MX: [mx(5, '192.0.2.1'), mx(10, 'a.example')] } })).toMatchObject({
      kind: 'ok',
      hosts: [{ host: 'a.example', preference: 10 }],
    })
    expect(await resolveRoute({ 'example.com': { MX: [mx(5, '192.0.2.1')] } })).toEqual({
      kind: 'literal-mx',
    })
  })

  test.each([{ A: ['192.0.2.1'] }, { AAAA: ['2001:db8::1'] }, { A: ['192.0.2.1'], AAAA: 'SERVFAIL' as const }])(
    'without MX is the domain itself: %j',
    async (entry) => {
      expect(await resolveRoute({ 'example.com': { ...entry, ttl: 50 } }, 'Example.com.')).toEqual({
        kind: 'ok',
        hosts: [{ host: 'example.com', preference: 0 }],
        implicit: true,
        ttlSeconds: 50,
      })
    },
  )

  test('without MX and address is no host', async () => {
    expect(await resolveRoute({ 'example.com': { TXT: ['x'] } })).toEqual({ kind: 'no-mail-host' })
  })

  test('of a domain that does not exist is not the domain itself', async () => {
    expect(await resolveRoute({})).toEqual({ kind: 'nxdomain' })
  })

  // Proves: delivery-7
  test.each([
    ['SERVFAIL', 'The DNS servers could not look up the mail servers (MX) of example.com (SERVFAIL).'],
    ['REFERRAL', 'The DNS servers could not look up the mail servers (MX) of example.com (SERVFAIL).'],
    ['REFUSED', 'The DNS servers refused to look up the mail servers (MX) of example.com.'],
    ['MALFORMED', 'The DNS servers did not answer in time when asked for the mail servers (MX) of example.com.'],
  ] as const)('%s for the MX is temporary, and never falls back to the address', async (fault, reason) => {
    expect(await resolveRoute({ 'example.com': { MX: fault, A: ['192.0.2.1'] } })).toEqual({
      kind: 'temporary',
      reason,
    })
  })

  test('no MX and a failed lookup of the address is temporary', async () => {
    expect(await resolveRoute({ 'example.com': { A: 'SERVFAIL' } })).toEqual({
      kind: 'temporary',
      reason: 'The DNS servers could not look up the addresses of example.com (SERVFAIL).',
    })
  })

  // Proves: delivery-8
  test('a loop of CNAMEs is a loop', async () => {
    const zone = { 'example.com': { CNAME: 'b.example' }, 'b.example': { CNAME: 'example.com' } }
    expect(await resolveRoute(zone)).toEqual({ kind: 'loop' })
  })
})

describe('the addresses of a host', () => {
  test('are IPv4 before IPv6, and include IPv6 only when requested', async () => {
    const entry = { A: ['192.0.2.1', '192.0.2.2'], AAAA: ['2001:db8::1'] }
    expect(await resolveAddresses(entry, true)).toEqual({
      kind: 'ok',
      addresses: ['192.0.2.1', '192.0.2.2', '2001:db8::1'],
      ttlSeconds: 300,
    })
    expect(await resolveAddresses(entry, false)).toMatchObject({ addresses: ['192.0.2.1', '192.0.2.2'] })
  })

  test('of one kind are not hidden by the failure of the other', async () => {
    expect(await resolveAddresses({ A: ['192.0.2.1'], AAAA: 'SERVFAIL' }, true)).toMatchObject({
      addresses: ['192.0.2.1'],
    })
    expect(await resolveAddresses({ A: 'SERVFAIL', AAAA: ['2001:db8::1'] }, true)).toMatchObject({
      addresses: ['2001:db8::1'],
    })
    expect(await resolveAddresses({ A: ['192.0.2.1'], AAAA: 'NXDOMAIN' }, true)).toMatchObject({
      addresses: ['192.0.2.1'],
    })
  })

  test('that are absent in one kind and failed in the other are a temporary failure', async () => {
    expect(await resolveAddresses({ AAAA: 'SERVFAIL' }, true)).toMatchObject({ kind: 'temporary' })
    expect(await resolveAddresses({ A: 'SERVFAIL', AAAA: [] }, true)).toMatchObject({ kind: 'temporary' })
  })

  test('may be absent, whether or not the host exists', async () => {
    expect(await resolveAddresses({ TXT: ['x'] }, true)).toEqual({ kind: 'nodata' })
    expect(await resolveAddresses({ AAAA: ['2001:db8::1'] }, false)).toEqual({ kind: 'nodata' })
    expect(await resolveAddresses('NXDOMAIN', true)).toEqual({ kind: 'nxdomain' })
  })

  test('are found through a CNAME; a loop of CNAMEs is a loop', async () => {
    await using it = await startDns({
      'mx.example.com': { CNAME: 'real.example.com' },
      'real.example.com': { A: ['192.0.2.1'] },
      'self.example.com': { CNAME: 'self.example.com' },
    })
    expect(await resolveHostAddresses(it.resolver, 'mx.example.com', { ipv6: true })).toMatchObject({
      addresses: ['192.0.2.1'],
    })
    expect(await resolveHostAddresses(it.resolver, 'self.example.com', { ipv6: true })).toEqual({ kind: 'loop' })
  })
})
