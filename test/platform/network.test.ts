import { describe, expect, test } from 'bun:test'
import { networkOf, networksOf } from '#platform/net/network.ts'

describe('the network under which an address is counted', () => {
  // Proves: inbound-17
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:2::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ])('%s', (address, expected) => {
    expect(networkOf(address)).toBe(expected)
  })
})

test('an IPv6 address is in a /64, a /56 and a /48, an IPv4 address in no larger network', () => {
  expect(networksOf('2001:db8:1:2345::9')).toEqual(['2001:db8:1:2345::/64', '2001:db8:1:2300::/56', '2001:db8:1::/48'])
  expect(networksOf('::ffff:192.0.2.7')).toEqual(['192.0.2.7'])
})
