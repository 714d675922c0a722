import { describe, expect, test } from 'bun:test'
import { findDnsProvider, getEditUrl, mergeSpf, toTypedName } from '#features/setup/domains/published-dns.ts'

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
