import { expect, test } from 'bun:test'
import { createNetworkMatcher, resolveClientIp } from '#platform/http/client-ip.ts'

const isTrusted = createNetworkMatcher(['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'])

test.each<[string, string | null, string]>([
  ['203.0.113.5', '198.51.100.1', '203.0.113.5'],
  ['10.1.1.1', null, '10.1.1.1'],
  ['10.1.1.1', '198.51.100.1', '198.51.100.1'],
  ['10.1.1.1', 'forged, 198.51.100.1', '198.51.100.1'],
  ['10.1.1.1', '127.0.0.1, 198.51.100.1, 10.2.2.2', '198.51.100.1'],
  ['10.1.1.1', '10.3.3.3, 10.2.2.2', '10.3.3.3'],
  ['10.1.1.1', '198.51.100.1, unknown', '10.1.1.1'],
  ['10.1.1.1', '', '10.1.1.1'],
  ['10.1.1.1', '198.51.100.1:4711', '198.51.100.1'],
  ['::ffff:10.1.1.1', '198.51.100.1', '198.51.100.1'],
  ['2001:db8::5', '[2001:4860::1]:443', '2001:4860::1'],
  ['2001:db8::5', '::ffff:198.51.100.1', '198.51.100.1'],
  ['::ffff:203.0.113.5', '198.51.100.1', '203.0.113.5'],
  ['10.1.1.1', '::ffff:cb00:714e', '203.0.113.78'],
  ['10.1.1.1', '0:0:0:0:0:FFFF:cb00:714e', '203.0.113.78'],
  ['10.1.1.1', '[0::ffff:c633:6401]:4711', '198.51.100.1'],
  ['::ffff:a01:101', '198.51.100.1', '198.51.100.1'],
  ['10.1.1.1', '2001:4860::ffff:cb00:714e', '2001:4860::ffff:cb00:714e'],
])('peer %s with X-Forwarded-For "%s" is %s', (peer, forwardedFor, expected) => {
  expect(resolveClientIp(peer, forwardedFor, isTrusted)).toBe(expected)
})

test('networks and addresses match only their own family', () => {
  expect(['10.255.0.1', '11.0.0.1', '192.0.2.1', '192.0.2.2', '2001:db8:1::1', '2001:db9::1'].map(isTrusted)).toEqual([
    true,
    false,
    true,
    false,
    true,
    false,
  ])
  expect(createNetworkMatcher([])('127.0.0.1')).toBe(false)
})
