/** @module Runs the HTTP providers of DNS through the same cases, each against a stub of its API. */
import { afterAll, describe, expect, test } from 'bun:test'
import { type DnsApi, type DnsApiDeps, DnsApiError } from '#features/setup/dns-publish/dns-api.ts'
import { HTTP_PROVIDERS } from '#features/setup/dns-publish/http/providers.ts'
import { signAws } from '#platform/crypto/sign-aws.ts'
import { SafeFetch } from '#platform/net/safe-fetch.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import dnsProviders from '../../../../src/features/setup/domains/dns-providers.json' with { type: 'json' }
import { getStub, STUBS } from './stubs/providers.ts'
import { serveStub } from './stubs/serve.ts'
import type { ProviderStub } from './stubs/zone.ts'

const ca = createCertificateAuthority()
const fetch = new SafeFetch({
  clock: systemClock,
  lookUp: async (host) => ({ kind: 'failed', reason: `${host} has no address in DNS.`, isTemporary: false }),
  findRefusal: () => undefined,
  ca: [ca.pem],
})
afterAll(() => fetch.close())
/** What is paced need not wait here. */
const clock = { ...systemClock, sleep: async () => {} }
const deps: DnsApiDeps = { fetch, clock, signal: new AbortController().signal, resolveServer: async () => [] }

function connect({ name }: Pick<ProviderStub, 'name'>, credentials: Readonly<Record<string, string>>): DnsApi {
  const provider = HTTP_PROVIDERS.find((one) => one.name === name)
  if (!provider) throw new Error(`no provider ${name}`)
  return provider.create(deps, credentials)
}

async function open(stub: ProviderStub) {
  const served = await serveStub(stub, ca, systemClock.now)
  const [zone] = served.zones
  const provider = connect(stub, served.credentials)
  const api: DnsApi = {
    ...provider,
    async write(name, change) {
      await provider.write(name, change)
      if (stub.name === 'ovh') expect(zone.dns).not.toEqual(zone.served())
      await provider.publish?.(name)
    },
  }
  zone.put('', 'A', '192.0.2.1')
  zone.put('', 'TXT', '"v=spf1 include:_spf.example.net ~all"', 7200, 'ours')
  zone.put('', 'TXT', '"google-site-verification=abc"', 7200)
  zone.put('', 'MX', '10 mail.example.net.')
  zone.put('www', 'CNAME', 'example.com.')
  zone.put('_dmarcx', 'TXT', '"a name that _dmarc as a pattern matches"')
  zone.publish()
  return { served, zone, api, [Symbol.asyncDispose]: () => served[Symbol.asyncDispose]() }
}

/** What the API throws, as `problem: message`. */
async function problemOf(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof DnsApiError)) throw new Error(`no DnsApiError, but ${String(error)}`)
  return `${error.problem}: ${error.message} ${error.retryAfterSeconds ?? ''}`
}

const DKIM = `v=DKIM1; k=rsa; p=${'MIIBIjANBgkqh+/'.repeat(27)}AQAB`
const SPF = 'v=spf1 include:_spf.example.net ~all'
const dkim = { name: 'k1._domainkey.example.com', type: 'TXT', ttlSeconds: 3600, before: [], after: [DKIM] } as const

describe.each(STUBS.map((stub) => [stub.name, stub] as const))('%s', (name, stub) => {
  test('finds the longest zone, and says when there is none', async () => {
    await using it = await open(stub)
    expect(await it.api.findZone('example.com')).toBe('example.com')
    expect(await it.api.findZone('a.b.example.com')).toBe('example.com')
    expect(await problemOf(it.api.findZone('example.net'))).toStartWith('no_zone: ')
  })

  test('reads the sets of all types at the names', async () => {
    await using it = await open(stub)
    it.zone.put('*', 'A', '192.0.2.3')
    const names = ['', 'www.', '_dmarc.', '*.'].map((label) => `${label}example.com`)
    const sets = await it.api.read('example.com', names)
    expect(sets.map(({ name, type, values }) => [name, type, values.toSorted()]).sort()).toEqual([
      ['*.example.com', 'A', ['192.0.2.3']],
      ['example.com', 'A', ['192.0.2.1']],
      ['example.com', 'MX', ['10 mail.example.net']],
      ['example.com', 'TXT', ['google-site-verification=abc', SPF]],
      ['www.example.com', 'CNAME', ['example.com']],
    ])
    expect(sets.find(({ type }) => type === 'TXT')?.ttlSeconds).toBe(7200)
  })

  test('creates sets of each type, a TXT of over 400 octets too', async () => {
    await using it = await open(stub)
    const before = it.zone.dns
    const at = (host: string) => `${host}.example.com`
    await it.api.write('example.com', dkim)
    for (const [host, type, after] of [
      ['send', 'MX', ['10 mx1.example.net', '10 mx2.example.net']],
      ['links', 'CNAME', ['t.example.net']],
    ] as const)
      await it.api.write('example.com', { name: at(host), type, ttlSeconds: 3600, before: [], after })
    expect(it.zone.dns).toEqual(
      [
        ...before,
        `k1._domainkey.example.com 3600 TXT ${DKIM}`,
        'links.example.com 3600 CNAME t.example.net.',
        'send.example.com 3600 MX 10 mx1.example.net.',
        'send.example.com 3600 MX 10 mx2.example.net.',
      ].sort(),
    )
    const sets = await it.api.read('example.com', [at('k1._domainkey'), at('send'), at('links')])
    expect(sets.map(({ values }) => values.toSorted())).toEqual([
      [DKIM],
      ['10 mx1.example.net', '10 mx2.example.net'],
      ['t.example.net'],
    ])
  })

  test('changes one value beside others, and nothing else in the zone', async () => {
    await using it = await open(stub)
    const others = it.zone.dns.filter((line) => !line.includes('spf1'))
    const kept = it.zone.records.map(({ id, data }) => `${id} ${data}`)
    const google = 'google-site-verification=abc'
    const merged = 'v=spf1 ip4:192.0.2.9 include:_spf.example.net ~all'
    const change = { name: 'example.com', type: 'TXT', ttlSeconds: 3600 } as const
    await it.api.write('example.com', { ...change, before: [google, SPF], after: [google, merged] })
    expect(it.zone.dns).toEqual([...others, `example.com 7200 TXT ${merged}`].sort())
    // Single records stay, and are changed in place.
    if (/cloudflare|digitalocean|ovh/.test(name))
      expect(it.zone.records.map(({ id, data }) => `${id} ${data}`)).toEqual(
        kept.map((line) => line.replace(SPF, merged)),
      )
    if (name === 'cloudflare') expect(it.zone.records.find(({ data }) => data.includes('ip4'))?.extra).toBe('ours')
    // Two become one.
    await it.api.write('example.com', { ...change, before: [google, merged], after: [merged] })
    expect(it.zone.dns).toEqual(
      [...others.filter((line) => !line.includes('google')), `example.com 7200 TXT ${merged}`].sort(),
    )
  })

  test('keeps special characters of TXT', async () => {
    await using it = await open(stub)
    const value = name === 'digitalocean' ? 'a; b="c d" &<x>\'' : 'a; b="c d" \\e &<x>\''
    const change = { ...dkim, name: 'x.example.com', after: [value] }
    await it.api.write('example.com', change)
    expect(it.zone.dns).toContain(`x.example.com 3600 TXT ${value}`)
    expect((await it.api.read('example.com', ['x.example.com']))[0]?.values).toEqual([value])
    await it.api.write('example.com', { ...change, before: [value], after: [value, 'second'] })
    expect(it.zone.dns.filter((line) => line.startsWith('x.'))).toEqual([
      `x.example.com 3600 TXT ${value}`,
      'x.example.com 3600 TXT second',
    ])
  })

  test('refuses what was changed since it was read, and passes on that a CNAME cannot be beside others', async () => {
    await using it = await open(stub)
    const before = it.zone.dns
    const stale = { name: 'example.com', type: 'TXT', ttlSeconds: 3600, before: [SPF], after: ['v=spf1 -all'] } as const
    expect(await problemOf(it.api.write('example.com', stale))).toStartWith('changed: ')
    const problem = await problemOf(it.api.write('example.com', { ...dkim, name: 'www.example.com' }))
    expect(problem).toMatch(/^rejected: .*A CNAME record and other records cannot have one name\./)
    expect(it.zone.served()).toEqual(before)
  })

  test('reads 150 records of one name, and changes one of them', async () => {
    await using it = await open(stub)
    const values = Array.from({ length: 150 }, (_, i) => `value-${i}`)
    for (const value of values) it.zone.put('many', 'TXT', `"${value}"`)
    const [set] = await it.api.read('example.com', ['many.example.com'])
    expect(set?.values.toSorted()).toEqual(values.toSorted())
    const change = { name: 'many.example.com', type: 'TXT', ttlSeconds: 3600, before: set?.values ?? [] } as const
    await it.api.write('example.com', { ...change, after: [...values.slice(1), 'new'] })
    expect(it.zone.dns.filter((line) => line.startsWith('many'))).toEqual(
      [...values.slice(1), 'new'].map((value) => `many.example.com 3600 TXT ${value}`).sort(),
    )
  })

  test('names the missing right, and no secret', async () => {
    await using it = await open(stub)
    it.served.fault = 'no_rights'
    const rights = HTTP_PROVIDERS.find((one) => one.name === name)?.rights ?? '?'
    const secrets = Object.values(stub.credentials).filter((value) => value.length > 20)
    const problem = await problemOf(it.api.findZone('example.com'))
    expect(problem).toStartWith('unauthorised: ')
    expect(problem).toContain(rights)
    for (const secret of secrets) expect(problem).not.toContain(secret)
    it.served.fault = undefined
    const wrong = Object.fromEntries(
      Object.entries(stub.credentials).map(([key, value]) => [key, `${value.slice(0, -1)}Z`]),
    )
    const api = connect(stub, { ...it.served.credentials, ...wrong })
    expect(await problemOf(api.findZone('example.com'))).toMatch(/^unauthorised: .* refuses these credentials/)
    const spaced = { ...it.served.credentials, [Object.keys(stub.credentials)[0] ?? '']: 'a\nb' }
    expect(() => connect(stub, spaced)).toThrow('there must be no spaces in it')
  })

  test('turns rate limits, HTML and other forms into problems', async () => {
    await using it = await open(stub)
    it.served.fault = 'rate_limited'
    const when = name === 'route53' ? /in some minutes/ : /in 7 seconds\. 7$/
    expect(await problemOf(it.api.read('example.com', ['example.com']))).toMatch(when)
    expect(await problemOf(it.api.write('example.com', dkim))).toStartWith('rate_limited: ')
    it.served.fault = 'html'
    expect(await problemOf(it.api.write('example.com', dkim))).toMatch(/^unavailable: .*\(status 502\)/)
    it.served.fault = 'other_form'
    expect(await problemOf(it.api.write('example.com', dkim))).toMatch(/^(unavailable|no_zone): /)
    const gone = connect(stub, { ...it.served.credentials, api_url: 'https://localhost:1' })
    expect(await problemOf(gone.findZone('example.com'))).toStartWith('unavailable: ')
  })
})

test('every provider has the title by which its name servers are known', () => {
  const known = dnsProviders.map((provider) => provider.name)
  expect(HTTP_PROVIDERS.filter(({ title }) => !known.includes(title))).toEqual([])
  expect(HTTP_PROVIDERS.map((provider) => provider.name).toSorted()).toEqual(STUBS.map((stub) => stub.name).toSorted())
})

test('OVHcloud: a record of its own type is changed in place, without quotes', async () => {
  await using it = await open(getStub('ovh'))
  it.zone.put('_dmarc', 'DMARC', 'v=DMARC1; p=reject;')
  it.zone.publish()
  const before = await it.api.read('example.com', ['_dmarc.example.com'])
  expect(before).toMatchObject([{ type: 'TXT', values: ['v=DMARC1; p=reject;'] }])
  const after = 'v=DMARC1; p=reject; rua=mailto:a@example.net'
  const change = { name: '_dmarc.example.com', type: 'TXT', ttlSeconds: 3600, before: ['v=DMARC1; p=reject;'] } as const
  await it.api.write('example.com', { ...change, after: [after] })
  expect(it.zone.dns).toContain(`_dmarc.example.com 3600 TXT ${after}`)
})

test('Hetzner: keeps comments, and reports what is protected, or fails after the response', async () => {
  await using it = await open(getStub('hetzner'))
  const [google, spf] = ['google-site-verification=abc', SPF]
  const change = { name: 'example.com', type: 'TXT', ttlSeconds: 3600, before: [google, spf] } as const
  await it.api.write('example.com', { ...change, after: [google, spf, 'more'] })
  expect(it.zone.records.find(({ data }) => data.includes('spf1'))?.extra).toBe('ours')
  it.served.fault = 'action_error'
  expect(await problemOf(it.api.write('example.com', dkim))).toStartWith(
    'rejected: Hetzner refuses this change: too bad',
  )
  it.served.fault = 'protected'
  expect(await problemOf(it.api.write('example.com', dkim))).toStartWith('rejected: Hetzner refuses this change: RRSet')
})

test.each(['cloudflare', 'digitalocean', 'ovh'])(
  '%s: more records of one name than can be read are an error',
  async (name) => {
    await using it = await open(getStub(name))
    for (let i = 0; i < 1001; i++) it.zone.put('many', 'TXT', `"${i}"`)
    const problem = await problemOf(it.api.read('example.com', ['many.example.com']))
    expect(problem).toContain('has more records of many.example.com than can be read.')
  },
)

test.each(['digitalocean', 'ovh'])('%s: of two equal records, one stays', async (name) => {
  await using it = await open(getStub(name))
  for (const value of ['"v=spf1 -all"', '"v=spf1 -all"']) it.zone.put('twice', 'TXT', value)
  const change = {
    name: 'twice.example.com',
    type: 'TXT',
    ttlSeconds: 60,
    before: ['v=spf1 -all', 'v=spf1 -all'],
  } as const
  await it.api.write('example.com', { ...change, after: ['v=spf1 -all'] })
  expect(it.zone.dns.filter((line) => line.startsWith('twice'))).toEqual(['twice.example.com 3600 TXT v=spf1 -all'])
})

test('Cloudflare: an alias behind the proxy is known, and an address stays one', async () => {
  await using it = await open(getStub('cloudflare'))
  it.zone.put('site', 'A', '192.0.2.2')
  for (const record of it.zone.records) if (record.type !== 'TXT') Object.assign(record, { proxied: true })
  expect(await it.api.read('example.com', ['www.example.com', 'site.example.com'])).toMatchObject([
    { type: 'CNAME', values: ['example.com behind a proxy (switch it off: grey cloud)'] },
    { type: 'A', values: ['192.0.2.2'] },
  ])
})

test('deSEC: reads zones of more sets than a response has, name by name', async () => {
  await using it = await open(getStub('desec'))
  for (let i = 0; i < 501; i++) it.zone.put(`h${i}`, 'A', '192.0.2.2')
  const sets = await it.api.read('example.com', ['h7.example.com', 'none.example.com'])
  expect(sets).toMatchObject([{ name: 'h7.example.com', type: 'A', ttlSeconds: 3600, values: ['192.0.2.2'] }])
})

test('Route 53: leaves an alias alone, and reports several public zones of a name', async () => {
  await using it = await open(getStub('route53'))
  it.zone.put('al', 'CNAME', 'x.', 0, 'alias')
  const [set] = await it.api.read('example.com', ['al.example.com'])
  const change = {
    name: 'al.example.com',
    type: 'CNAME',
    ttlSeconds: 60,
    before: set?.values ?? [],
    after: ['y'],
  } as const
  expect(await problemOf(it.api.write('example.com', change))).toStartWith('rejected: ')
  Object.assign(it.served.zones[1] ?? {}, { name: 'example.com' })
  const again = connect(getStub('route53'), it.served.credentials)
  expect(await problemOf(again.findZone('example.com'))).toContain('several public hosted zones named example.com')
})

test('Route 53: signs as the test suite of AWS expects (get-vanilla)', () => {
  const request = { method: 'GET', url: 'https://example.amazonaws.com/', body: '' } as const
  const secret = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
  const now = Date.UTC(2015, 7, 30, 12, 36)
  expect(signAws(request, 'AKIDEXAMPLE', secret, 'us-east-1/service', now).authorization).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  )
})
