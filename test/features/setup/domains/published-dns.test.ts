import { describe, expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { runDnsCheck } from '#features/setup/domains/dns-check-slots.ts'
import type { PublishedDnsWire } from '#features/setup/domains/model.ts'
import { setTrackingDomain } from '#features/setup/domains/set-tracking.ts'
import { createTestAccount } from '#test/support/app.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

interface HttpTest extends AsyncDisposable {
  readonly t: DomainTest
  fetch(method: string, path: string, scopes?: readonly string[]): Promise<Response>
  /** The body of GET /v1/domains/{id}/dns. */
  read(id: string): Promise<PublishedDnsWire>
}

async function startHttpTest(): Promise<HttpTest> {
  const t = await startDomainTest()
  const http = createHttp(t.service.opened)
  const { port } = http.listen('127.0.0.1', 0)
  const request: HttpTest['fetch'] = async (method, path, scopes = ['domains:read', 'domains:write']) => {
    const { key } = await createApiKey(t.app, t.actor, { name: 'test', scopes })
    return fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { authorization: `Bearer ${key}` } })
  }
  return {
    t,
    fetch: request,
    async read(id) {
      const response = await request('GET', `/v1/domains/${id}/dns`, ['domains:read'])
      expect(response.status).toBe(200)
      return ((await response.json()) as { data: PublishedDnsWire }).data
    },
    async [Symbol.asyncDispose]() {
      await http.stop(0)
      await t[Symbol.asyncDispose]()
    },
  }
}

describe('GET /v1/domains/{id}/dns', () => {
  // Proves: domain-33
  test('shows found and expected values, and each name as the provider wants it typed', async () => {
    await using http = await startHttpTest()
    const { t } = http
    t.dns.zone['example.com'] = { NS: ['Hydrogen.ns.hetzner.com.', 'oxygen.ns.hetzner.com'], TXT: ['v=spf1 -all'] }
    t.dns.zone['send.example.com'] = { MX: [{ preference: 5, exchange: 'mx.example.net' }] }
    const { id, domain } = await t.register('example.com')
    t.publish(domain, ['dkim'])
    const { checked_at: checkedAt, ...dns } = await http.read(id)
    expect(Date.parse(checkedAt)).toBe(t.clock.now())
    const nameservers = ['hydrogen.ns.hetzner.com', 'oxygen.ns.hetzner.com']
    const selector = `${domain.dkimSelector}._domainkey`
    const key = `v=DKIM1; k=rsa; p=${domain.dkimPublicKey}`
    expect(dns).toEqual({
      domain: 'example.com',
      zone: 'example.com',
      nameservers,
      provider: { name: 'Hetzner', nameservers, edit_url: 'https://console.hetzner.com/' },
      domain_spf: 'v=spf1 -all',
      warnings: [],
      records: {
        spf: {
          type: 'TXT',
          name: 'send.example.com',
          zone: 'example.com',
          host: 'send',
          expected: 'v=spf1 ip4:192.0.2.25 -all',
          found: [],
          status: 'missing',
          detail: expect.stringContaining('There is no SPF record at send.example.com.'),
        },
        dkim: {
          type: 'TXT',
          name: `${selector}.example.com`,
          zone: 'example.com',
          host: selector,
          expected: key,
          found: [key],
          status: 'verified',
          detail: expect.stringContaining('is ours'),
        },
        dkim_ed25519: {
          type: 'TXT',
          name: `${selector.replace('.', 'e.')}.example.com`,
          zone: 'example.com',
          host: selector.replace('.', 'e.'),
          expected: `v=DKIM1; k=ed25519; p=${domain.ed25519PublicKey}`,
          found: [],
          status: 'missing',
          detail: expect.stringContaining('There is no DKIM key'),
        },
        dmarc: {
          type: 'TXT',
          name: '_dmarc.example.com',
          zone: 'example.com',
          host: '_dmarc',
          expected: 'v=DMARC1; p=none; rua=mailto:dmarc-reports@send.example.com',
          found: [],
          status: 'missing',
          detail: expect.stringContaining('There is no DMARC record'),
        },
        return_path: {
          type: 'MX',
          name: 'send.example.com',
          zone: 'example.com',
          host: 'send',
          expected: 'mail.tassis.test',
          priority: 10,
          found: ['5 mx.example.net'],
          status: 'wrong',
          detail: expect.stringContaining('points to mx.example.net'),
        },
      },
    })
  })

  // Proves: domain-33
  test('changes nothing, and asks each question once', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id, domain } = await t.register('example.com')
    t.publish(domain)
    t.publish(domain, ['dkim_ed25519'])
    const before = t.stored(id)
    const dns = await http.read(id)
    expect(Object.values(dns.records).map(({ status }) => status)).toEqual(Array(5).fill('verified'))
    expect(t.stored(id)).toEqual(before)
    expect(t.audited()).toEqual(['domain.created by operator'])
    const asked = t.dns.queries.map(({ name, type }) => `${type} ${name}`)
    expect(new Set(asked).size).toBe(asked.length)
  })

  // Proves: domain-33
  test('shows the inbound MX and the tracking host while they are in use', async () => {
    await using http = await startHttpTest()
    const { t } = http
    t.dns.zone['example.com'] = { NS: ['dns1.example.net'], MX: [{ preference: 0, exchange: '' }] }
    t.dns.zone['brand.test'] = { NS: ['ns-1.awsdns-10.com', 'ns-2.awsdns-11.co.uk'] }
    t.dns.zone['links.brand.test'] = { A: ['192.0.2.80'] }
    const { id } = await t.register('example.com')
    await t.app.commit.write((tx) => tx.db.run('UPDATE domains SET inbound_enabled = 1'))
    // The name of the service in tests is not that of its public URL.
    await setTrackingDomain(t.app, t.actor, id, 'links.brand.test')
    const { records, provider } = await http.read(id)
    expect(provider).toBeNull()
    expect(records.mx).toMatchObject({ name: 'example.com', host: '@', found: ['0 .'], status: 'wrong', priority: 10 })
    expect(records.tracking).toMatchObject({
      type: 'CNAME',
      zone: 'brand.test',
      host: 'links',
      expected: 'mail.tassis.test',
      found: ['192.0.2.80'],
    })
  })

  // Proves: domain-34
  test('keeps the terms of an SPF record that does not pass, and the record that does', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id } = await t.register('example.com')
    t.dns.zone['_spf.example.net'] = { TXT: ['v=spf1 ip4:198.51.100.7 -all'] }
    const spf = async (...texts: string[]) => {
      t.dns.zone['send.example.com'] = { TXT: texts }
      return (await http.read(id)).records.spf
    }
    const merged = 'v=spf1 ip4:192.0.2.25 include:_spf.example.net ~all'
    expect(await spf('v=spf1 include:_spf.example.net ~all')).toMatchObject({
      status: 'wrong',
      keep: merged,
      detail: expect.stringMatching(/\. Replace it with v=spf1 ip4:192\.0\.2\.25 include:_spf\.example\.net ~all$/),
    })
    expect(await spf(merged)).toMatchObject({ status: 'verified', keep: merged, found: [merged] })
    expect(await spf('v=spf1 a:one.example.net -all', 'v=spf1 include:_spf.example.net ~all')).toMatchObject({
      status: 'wrong',
      keep: 'v=spf1 ip4:192.0.2.25 a:one.example.net include:_spf.example.net -all',
      detail: expect.stringMatching(
        /Keep only one, with the value v=spf1 ip4:192\.0\.2\.25 a:one\S+ include:\S+ -all$/,
      ),
    })
    // A term that is no SPF makes every record with it invalid.
    expect((await spf('v=spf1 nonsense:x ~all')).keep).toBeUndefined()
    expect((await spf('v=spf1 ip4:192.0.2.25 -all')).keep).toBeUndefined()
  })

  // Proves: domain-34
  test('keeps an existing DMARC policy, also that of the organisational domain', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id } = await t.register('mail.example.com')
    t.dns.zone['_dmarc.example.com'] = { TXT: ['v=DMARC1; p=reject; rua=mailto:d@example.com'] }
    expect((await http.read(id)).records.dmarc).toMatchObject({
      inherited_from: 'example.com',
      status: 'verified',
      found: [],
      keep: 'v=DMARC1; p=reject; rua=mailto:d@example.com',
    })
    t.dns.zone['_dmarc.mail.example.com'] = { TXT: ['v=DMARC1; p=quarantine'] }
    expect((await http.read(id)).records.dmarc).toMatchObject({ status: 'verified', keep: 'v=DMARC1; p=quarantine' })
  })

  test('finds the zone of each record, also of a part that is delegated elsewhere', async () => {
    await using http = await startHttpTest()
    const { t } = http
    t.dns.zone['example.co.uk'] = { NS: ['ns1.jweiland.net'] }
    t.dns.zone['_dmarc.news.example.co.uk'] = { NS: ['amir.ns.cloudflare.com'] }
    // A CNAME is no zone, whatever the name servers of its target.
    t.dns.zone['send.news.example.co.uk'] = { CNAME: 'other.test' }
    t.dns.zone['other.test'] = { NS: ['ns1.loopia.se'] }
    const { id } = await t.register('news.example.co.uk')
    const dns = await http.read(id)
    expect(dns).toMatchObject({ zone: 'example.co.uk', provider: { name: 'jweiland.net', edit_url: null } })
    expect(dns.records).toMatchObject({
      spf: { zone: 'example.co.uk', host: 'send.news.example.co.uk' },
      dmarc: { zone: '_dmarc.news.example.co.uk', host: '@' },
    })
  })

  test('says so when DNS does not respond, and bounds what it shows', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id, domain } = await t.register('example.com')
    t.break('SERVFAIL', 'example.com', 'send.example.com')
    const texts = Array.from({ length: 20 }, (_, i) => `${i}${'<script>'.repeat(200)}\r\n\u202e`)
    t.dns.zone[`${domain.dkimSelector}._domainkey.example.com`] = { TXT: texts }
    const { zone, nameservers, provider, records, domain_spf: domainSpf } = await http.read(id)
    expect({ zone, nameservers, provider, domainSpf }).toEqual({
      zone: 'example.com',
      nameservers: [],
      provider: null,
      domainSpf: null,
    })
    expect(records.spf).toMatchObject({ status: 'unanswered', found: [] })
    expect(records.dkim.found).toHaveLength(10)
    expect(records.dkim.found.every((text) => text.length === 1025)).toBe(true)
  })
})

/** Publishes the records of a zone file, as a DNS provider imports it. Knows only what our files have. */
function importZone({ dns }: DomainTest, text: string): string[] {
  let origin = ''
  const names: string[] = []
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith(';') || line.startsWith('$TTL')) continue
    if (line.startsWith('$ORIGIN ')) {
      origin = line.slice('$ORIGIN '.length)
      continue
    }
    const [, owner = '', type = '', data = ''] = /^(\S+) 3600 IN (TXT|MX|CNAME) (.+)$/.exec(line) ?? []
    const name = (owner === '@' ? origin : owner.endsWith('.') ? owner : `${owner}.${origin}`).replace(/\.$/, '')
    names.push(`${type} ${name}`)
    const there = dns.zone[name]
    const entry = typeof there === 'object' ? there : {}
    dns.zone[name] = entry
    const records = <T>(found: readonly T[] | string | undefined): readonly T[] =>
      typeof found === 'string' || found === undefined ? [] : found
    if (type === 'MX') {
      const [preference, exchange = ''] = data.split(' ')
      entry.MX = [...records(entry.MX), { preference: Number(preference), exchange }]
    } else if (type === 'TXT') {
      const strings = [...data.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, string = '']) =>
        string.replace(/\\(.)/g, '$1'),
      )
      expect(strings.every((string) => string.length <= 255)).toBe(true)
      entry.TXT = [...records(entry.TXT), strings]
    } else entry.CNAME = data
  }
  return names
}

describe('GET /v1/domains/{id}/zone-file', () => {
  // Proves: domain-35
  test('an import publishes everything, and the domain verifies', async () => {
    await using http = await startHttpTest()
    const { t } = http
    t.dns.zone['example.com'] = { NS: ['ns1.inwx.de'] }
    const { id, domain } = await t.register('news.example.com')
    await setTrackingDomain(t.app, t.actor, id, 'links.news.example.com')
    const response = await http.fetch('GET', `/v1/domains/${id}/zone-file`, ['domains:read'])
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/plain')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="news.example.com.zone.txt"')
    const text = await response.text()
    expect(text).toContain('\n$ORIGIN example.com.\n$TTL 3600\n')
    expect(importZone(t, text)).toEqual([
      'TXT send.news.example.com',
      `TXT ${domain.dkimSelector}._domainkey.news.example.com`,
      `TXT ${domain.dkimSelector}e._domainkey.news.example.com`,
      'TXT _dmarc.news.example.com',
      'MX send.news.example.com',
      'CNAME links.news.example.com',
    ])
    const verified = await http.fetch('POST', `/v1/domains/${id}/verify`)
    expect(await verified.json()).toMatchObject({
      data: { fully_verified: true, dmarc_verified: true, dkim_ed25519_verified: true },
    })
    expect((await http.read(id)).records.tracking).toMatchObject({ status: 'verified' })
  })

  // Proves: domain-35
  test('has only comments for records that exist, could not be looked up or are in another zone', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id, domain } = await t.register('example.com')
    t.publish(domain, ['dkim', 'dkim_ed25519'])
    t.dns.zone['send.example.com'] = { TXT: ['v=spf1 include:a.test ~all'], MX: 'SERVFAIL' }
    t.dns.zone['a.test'] = { TXT: ['v=spf1 -all'] }
    t.dns.zone['_dmarc.example.com'] = { TXT: ['v=DMARC1; p=reject; \n@ 3600 IN MX 1 evil.test.'] }
    await setTrackingDomain(t.app, t.actor, id, 'links.brand.test')
    const text = await (await http.fetch('GET', `/v1/domains/${id}/zone-file`)).text()
    expect(text.split('\n').filter((line) => line !== '' && !line.startsWith(';'))).toEqual([
      '$ORIGIN example.com.',
      '$TTL 3600',
    ])
    expect(text).toContain('; send 3600 IN TXT "v=spf1 ip4:192.0.2.25 include:a.test ~all"')
    expect(text).toContain('; send 3600 IN MX 10 mail.tassis.test.')
    expect(text).toContain('; links.brand.test. 3600 IN CNAME')
    expect(text).not.toContain('p=none')
  })
})

describe('POST /v1/domains/{id}/verify every 10 seconds', () => {
  // Proves: domain-36
  test('sees a record as soon as it is published, and audits only changes', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id, domain } = await t.register('example.com')
    const verify = async () => {
      const response = await http.fetch('POST', `/v1/domains/${id}/verify`)
      expect(response.status).toBe(200)
      t.clock.advance(10_000)
      return ((await response.json()) as { data: { spf_verified: boolean; fully_verified: boolean } }).data
    }
    for (let i = 0; i < 12; i++) expect((await verify()).fully_verified).toBe(false)
    t.publish(domain, ['spf'])
    expect((await verify()).spf_verified).toBe(true)
    t.publish(domain)
    for (let i = 0; i < 3; i++) expect((await verify()).fully_verified).toBe(true)
    expect(t.audited()).toEqual(['domain.created by operator', 'domain.verified by api_key'])
  })

  // Proves: domain-36
  test('checks beyond four at a time wait for a free slot, after 10 seconds with a 429', async () => {
    await using t = await startDomainTest()
    const ends: (() => void)[] = []
    const check = (by = t.actor) =>
      runDnsCheck(t.app, by.accountId, () => new Promise<string>((resolve) => ends.push(() => resolve('checked'))))
    const running = [check(), check(), check(), check()]
    const waiting = check()
    // The checks of another account run beside them.
    const elsewhere = check(await createTestAccount(t.app))
    await Bun.sleep(0)
    expect(ends).toHaveLength(5)
    ends[4]?.()
    expect(await elsewhere).toBe('checked')
    ends[0]?.()
    expect(await running[0]).toBe('checked')
    await Bun.sleep(0)
    ends[5]?.()
    expect(await waiting).toBe('checked')
    running.push(check())
    await Bun.sleep(0)
    const late = check().catch((error: unknown) => error)
    t.clock.advance(10_000)
    expect(await late).toMatchObject({ status: 429, code: 'rate_limited' })
    for (const end of ends) end()
    expect(await Promise.all(running)).toHaveLength(5)
    const again = check()
    await Bun.sleep(0)
    ends.at(-1)?.()
    expect(await again).toBe('checked')
  })
})
