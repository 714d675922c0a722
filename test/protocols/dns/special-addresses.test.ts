import { expect, test } from 'bun:test'
import { canConnectTo, isSpecialAddress, parseIpv6Groups } from '#protocols/dns/special-addresses.ts'

test.each([
  '0.0.0.0',
  '10.1.2.3',
  '100.64.0.1',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.255.254',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.8',
  '192.0.2.1',
  '192.168.1.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.7',
  '203.0.113.9',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
])('%s is special', (ip) => {
  expect(isSpecialAddress(ip)).toBe(true)
})

test.each([
  '::',
  '::1',
  '::127.0.0.1',
  'fe80::1',
  'febf::1',
  'fec0::1',
  'fc00::1',
  'fdff::1',
  'ff02::1',
  '2001:db8::1',
  '2001:0:1::1',
  '3fff::1',
  '100::1',
  '64:ff9b:1::1',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::FFFF:10.0.0.1',
  '0:0:0:0:0:ffff:c0a8:0101',
  '::ffff:0:10.0.0.1',
  '64:ff9b::10.0.0.1',
  '64:ff9b::a9fe:a9fe',
  '2002:7f00:1::',
  '2002:a00:1::1',
  '2002:c0a8:101:1:2:3:4:5',
])('%s is special', (ip) => {
  expect(isSpecialAddress(ip)).toBe(true)
})

test.each([
  '',
  'localhost',
  '127.1',
  '0x7f000001',
  '2130706433',
  '127.0.0.1:25',
  '[::1]',
  'fe80::1%eth0',
  '2606:4700::1%1',
])('an invalid address is treated as special: %j', (text) => {
  expect(isSpecialAddress(text)).toBe(true)
})

test.each([
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.1',
  '169.253.0.1',
  '172.15.255.255',
  '172.32.0.0',
  '192.0.1.1',
  '192.167.1.1',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '2606:4700:4700::1111',
  '2a00:1450:4001::1',
  '2001:4860:4860::8888',
  '::ffff:8.8.8.8',
  '64:ff9b::8.8.8.8',
  '2002:808:808::1',
  '2400:cb00::1',
])('%s is an ordinary address', (ip) => {
  expect(isSpecialAddress(ip)).toBe(false)
})

test('an IPv6 address is parsed in every notation', () => {
  expect(parseIpv6Groups('::')).toEqual([0, 0, 0, 0, 0, 0, 0, 0])
  expect(parseIpv6Groups('2001:DB8::1:0')).toEqual([0x2001, 0xdb8, 0, 0, 0, 0, 1, 0])
  expect(parseIpv6Groups('1:2:3:4:5:6:7:8')).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  expect(parseIpv6Groups('::ffff:192.0.2.1')).toEqual([0, 0, 0, 0, 0, 0xffff, 0xc000, 0x201])
})

test('canConnectTo allows only public addresses, those of this machine with `loopback`, and all with true', () => {
  const addresses = ['8.8.8.8', '2606:4700::1', '127.0.0.1', '127.255.0.9', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1']
  const others = [
    '10.0.0.1',
    '0.0.0.0',
    '::',
    'fe80::1',
    '::1%lo',
    '::ffff:10.0.0.1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '',
  ]
  const reached = (special: boolean | 'loopback') => [...addresses, ...others].filter((ip) => canConnectTo(ip, special))
  expect(reached(false)).toEqual(['8.8.8.8', '2606:4700::1'])
  expect(reached('loopback')).toEqual(addresses)
  expect(reached(true)).toEqual([...addresses, ...others])
})
