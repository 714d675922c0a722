import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { findListing, testBlockList } from '#protocols/dns/block-list.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { type DnsServer, startDnsServer, type Zone } from '#test/support/dns-server.ts'

const V6_LISTED = '2.0.0.0.0.0.f.7.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0'
const V6_UNLISTED = V6_LISTED.replace(/^2/, '1')
const V6_BAD = '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2'
const listed = (...codes: string[]) => ({ A: codes })
const ZONE: Zone = {
  '2.0.0.127.good.test': listed('127.0.0.2'),
  [`${V6_LISTED}.good.test`]: listed('127.0.0.2'),
  '9.2.0.192.good.test': { A: ['127.0.0.3', '127.0.0.4'], TXT: ['https://good.test/why'] },
  [`${V6_BAD}.good.test`]: listed('127.0.0.2'),
  '8.2.0.192.good.test': 'SERVFAIL',
  '7.2.0.192.good.test': listed('203.0.113.9'),
  // Lists everything, as a list that has closed.
  '2.0.0.127.all.test': listed('127.0.0.2'),
  '1.0.0.127.all.test': listed('127.0.0.2'),
  [`${V6_UNLISTED}.all.test`]: listed('127.0.0.2'),
  // A domain whose new owner has an address for every name.
  '2.0.0.127.parked.test': listed('203.0.113.9'),
  '1.0.0.127.parked.test': listed('203.0.113.9'),
  '2.0.0.127.public.test': listed('127.255.255.254'),
  '1.0.0.127.public.test': listed('127.255.255.254'),
  '2.0.0.127.silent.test': 'SILENCE',
  '1.0.0.127.silent.test': 'SILENCE',
  '2.0.0.127.failing.test': 'SERVFAIL',
}

let dns: DnsServer
let resolver: StubResolver
const createResolver = (timeoutMs: number) =>
  new StubResolver({ servers: [dns.address], clock: systemClock, randomId: () => 4711, timeoutMs, attempts: 1 })
beforeAll(async () => {
  dns = await startDnsServer(ZONE)
  resolver = createResolver(20_000)
})
afterAll(async () => {
  resolver.close()
  await dns.close()
})

test.each([
  ['good.test', 'ipv4', { kind: 'works' }],
  ['good.test', 'ipv6', { kind: 'works' }],
  ['all.test', 'ipv4', { kind: 'broken' }],
  ['all.test', 'ipv6', { kind: 'broken' }],
  ['empty.test', 'ipv4', { kind: 'broken' }],
  ['parked.test', 'ipv4', { kind: 'broken' }],
  ['public.test', 'ipv4', { kind: 'refuses', code: '127.255.255.254' }],
  ['failing.test', 'ipv4', { kind: 'silent' }],
] as const)('the self-test of %s for %s finds %j', async (list, family, state) => {
  expect(await testBlockList(resolver, list, family)).toEqual(state)
})

test('a list that does not answer is silent', async () => {
  using impatient = createResolver(50)
  expect(await testBlockList(impatient, 'silent.test', 'ipv4')).toEqual({ kind: 'silent' })
})

test.each([
  ['192.0.2.9', { kind: 'listed', codes: ['127.0.0.3', '127.0.0.4'], reason: 'https://good.test/why' }],
  ['2001:db8::1', { kind: 'listed', codes: ['127.0.0.2'], reason: undefined }],
  ['192.0.2.1', { kind: 'not-listed' }],
  ['192.0.2.8', { kind: 'unknown' }],
  ['192.0.2.7', { kind: 'unknown' }],
] as const)('%s is found as %j', async (ip, listing) => {
  expect(await findListing(resolver, 'good.test', ip)).toEqual(listing)
})
