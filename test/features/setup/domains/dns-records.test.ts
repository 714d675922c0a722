import { describe, expect, test } from 'bun:test'
import { buildDnsRecords, formatSpfValue } from '#features/setup/domains/dns-records.ts'
import { findRegistrableDomain, validateDomainName } from '#features/setup/domains/name.ts'
import { findDnsProvider, getEditUrl, mergeSpf, toTypedName } from '#features/setup/domains/published-dns.ts'

const DNS = {
  domain: 'example.com',
  selector: 'ts1',
  dkimPublicKey: 'MIIBIj',
  ed25519PublicKey: null,
  nextDkim: null,
  sendingSubdomain: 'send',
  hostname: 'mail.tassis.test',
  outboundIps: ['192.0.2.1', '2001:db8::1'],
}

// Proves: domain-14
test('records have full names without a trailing dot, unquoted values and a separate MX priority', () => {
  const verified = { spf: true, dkim: false, dmarc: true, return_path: false, mx: false }
  expect(buildDnsRecords({ ...DNS, verified })).toEqual({
    spf: {
      type: 'TXT',
      host: 'send.example.com',
      value: 'v=spf1 ip4:192.0.2.1 ip6:2001:db8::1 -all',
      verified: true,
    },
    dkim: { type: 'TXT', host: 'ts1._domainkey.example.com', value: 'v=DKIM1; k=rsa; p=MIIBIj', verified: false },
    dmarc: {
      type: 'TXT',
      host: '_dmarc.example.com',
      value: 'v=DMARC1; p=none; rua=mailto:dmarc-reports@send.example.com',
      verified: true,
    },
    return_path: { type: 'MX', host: 'send.example.com', value: 'mail.tassis.test', priority: 10, verified: false },
    mx: { type: 'MX', host: 'example.com', value: 'mail.tassis.test', priority: 10, verified: false },
  })
})

test('SPF names our host when no addresses are configured', () => {
  expect(formatSpfValue({ ...DNS, outboundIps: [] })).toBe('v=spf1 a:mail.tassis.test ~all')
})

describe('findDnsProvider', () => {
  test.each([
    [['ns-1-a.gandi.net', 'ns-2-b.gandi.net', 'ns-3-c.gandi.net'], 'Gandi'],
    [
      ['ns-10.awsdns-01.com', 'ns-1200.awsdns-22.org', 'ns-1900.awsdns-45.co.uk', 'ns-700.awsdns-24.net'],
      'Amazon Route 53',
    ],
    [['ns1.desec.io', 'ns2.desec.org'], 'deSEC'],
    [['1-you.njalla.no', '2-can.njalla.in', '3-get.njalla.fo'], 'Njalla'],
    [['ns0.transip.net', 'ns1.transip.nl', 'ns2.transip.eu'], 'TransIP'],
    [['ns1-01.azure-dns.com', 'ns2-01.azure-dns.net', 'ns3-01.azure-dns.org', 'ns4-01.azure-dns.info'], 'Azure DNS'],
    [['docks01.rzone.de', 'shades12.rzone.de'], 'STRATO'],
  ])('%p: %s', (servers, name) => {
    expect(findDnsProvider(servers)?.name).toBe(name)
  })

  test('knows none without servers, with servers of several providers, or by a part of a label', () => {
    for (const servers of [[], ['ns1.gandi.net', 'ns1.inwx.de'], ['ns.notgandi.net'], ['gandi.net.evil.test'], ['']])
      expect(findDnsProvider(servers)).toBeUndefined()
  })

  test('the page to edit records has the name of the zone', () => {
    const godaddy = findDnsProvider(['ns01.domaincontrol.com'])
    expect(godaddy && getEditUrl(godaddy, 'example.com')).toBe('https://dcc.godaddy.com/manage/example.com/dns')
  })
})

test('the name to type is relative, the full one where a provider wants that, and @ or empty for the zone itself', () => {
  const route53 = findDnsProvider(['ns-10.awsdns-01.com'])
  const jweiland = findDnsProvider(['ns1.jweiland.net'])
  expect(toTypedName('a.b.example.com', 'example.com', undefined)).toBe('a.b')
  expect(toTypedName('example.com', 'example.com', undefined)).toBe('@')
  expect(toTypedName('example.com', 'example.com', route53)).toBe('')
  expect(toTypedName('a.example.com', 'example.com', jweiland)).toBe('a.example.com')
})

test('merging SPF keeps all terms once and in order, with ours first and the first `all` or `redirect` last', () => {
  const ours = 'v=spf1 ip4:192.0.2.25 ip6:2001:db8::1 -all'
  const start = 'v=spf1 ip4:192.0.2.25 ip6:2001:db8::1'
  expect(mergeSpf(['v=spf1 include:a.test ?all'], ours)).toBe(`${start} include:a.test ?all`)
  expect(mergeSpf(['V=SPF1  mx\ta ip4:192.0.2.25 redirect=b.test'], ours)).toBe(`${start} mx a redirect=b.test`)
  expect(mergeSpf(['v=spf1 a mx', 'v=spf1 mx ~ALL'], ours)).toBe(`${start} a mx ~ALL`)
  expect(mergeSpf(['v=spf1'], ours)).toBe(start)
  expect(mergeSpf(['v=spf1 include:all.test -all'], 'v=spf1 a:mail.test ~all')).toBe(
    'v=spf1 a:mail.test include:all.test -all',
  )
})

describe('a domain to register', () => {
  test.each([
    ['example.com', 'example.com'],
    ['  Mail.Example.COM. ', 'mail.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['例え。テスト', 'xn--r8jz45g.xn--zckzah'],
    ['example.test', 'example.test'],
    ['shop.example.co.uk', 'shop.example.co.uk'],
    ['me.github.io', 'me.github.io'],
    ['1and1.com', '1and1.com'],
    [`${'a'.repeat(63)}.com`, `${'a'.repeat(63)}.com`],
  ])('%j is read as %s', (text, domain) => {
    expect(validateDomainName(text)).toEqual({ kind: 'ok', domain })
  })

  // Proves: domain-6
  test.each([
    ['', 'is empty'],
    ['  ', 'is empty'],
    ['localhost', 'has no dot. Enter the whole bare name, such as example.com.'],
    ['com', 'has no dot'],
    ['co.uk', 'public suffix'],
    ['github.io', 'public suffix'],
    ['192.0.2.1', 'IP address'],
    ['0x7f.1', 'IP address'],
    ['1.2.3', 'IP address'],
    ['example.123', 'IP address'],
    ['2001:db8::1', 'invalid character'],
    ['[192.0.2.1]', 'IP address'],
    ['https://example.com', 'invalid character'],
    ['user@example.com', 'invalid character'],
    ['ex%61mple.com', 'invalid character'],
    ['exa mple.com', 'invalid character'],
    ['a..com', 'extra dot'],
    ['.example.com', 'extra dot'],
    ['example.com..', 'extra dot'],
    ['_dmarc.example.com', 'invalid character'],
    ['-a.example.com', 'hyphen'],
    ['a-.example.com', 'hyphen'],
    ['*.example.com', 'invalid character'],
    [`${'a'.repeat(64)}.com`, 'longer than 63'],
    ['xn--a.example', 'internationalised'],
    [`${'a.'.repeat(125)}test.com`, 'longer than 253'],
    ['a'.repeat(10_000), 'longer than 253'],
  ])('%j is rejected', (text, reason) => {
    const result = validateDomainName(text)
    expect(result.kind).toBe('invalid')
    expect(result.kind === 'invalid' && result.reason).toContain(reason)
  })
})

test('the registrable domain is one label below the public suffix', () => {
  expect(findRegistrableDomain('a.b.example.co.uk')).toBe('example.co.uk')
  expect(findRegistrableDomain('example.com')).toBe('example.com')
  expect(findRegistrableDomain('x.me.github.io')).toBe('me.github.io')
  expect(findRegistrableDomain('a.example.test')).toBe('example.test')
  expect(findRegistrableDomain('co.uk')).toBeUndefined()
})
