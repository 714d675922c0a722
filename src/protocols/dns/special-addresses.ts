/**
 * @module Lists the addresses to which an untrusted DNS record or URL must not make this service connect: private,
 * local, multicast and documentation addresses, and the IPv6 forms that embed such an IPv4 address (RFC 6890 and the
 * IANA special-purpose registries). Decides which of them a caller may allow.
 */
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

const IPV4_BLOCKS: readonly [string, number][] = [
  ['0.0.0.0', 8], // this network
  ['10.0.0.0', 8], // private
  ['100.64.0.0', 10], // carrier-grade NAT
  ['127.0.0.0', 8], // loopback
  ['169.254.0.0', 16], // link-local, with the metadata services of clouds
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // IETF protocol assignments
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // 6to4 relays, withdrawn
  ['192.168.0.0', 16], // private
  ['198.18.0.0', 15], // benchmarking
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, with the broadcast address
]

const IPV6_BLOCKS: readonly [string, number][] = [
  ['::', 96], // unspecified, loopback, IPv4-compatible (withdrawn)
  ['64:ff9b:1::', 48], // NAT64 of a local network
  ['100::', 64], // discard
  ['100:0:0:1::', 64], // dummy prefix
  ['2001::', 23], // IETF protocol assignments, with Teredo
  ['2001:db8::', 32], // documentation
  ['3fff::', 20], // documentation
  ['5f00::', 16], // segment routing
  ['fc00::', 7], // unique local
  ['fe80::', 10], // link-local
  ['fec0::', 10], // site-local, withdrawn
  ['ff00::', 8], // multicast
]

/**
 * Prefixes of IPv6 addresses that embed an IPv4 address, and the index of the 16-bit group at which the IPv4 address
 * begins.
 */
const WRAPPERS: readonly [prefix: readonly number[], at: number][] = [
  [[0, 0, 0, 0, 0, 0xffff], 6], // IPv4-mapped
  [[0, 0, 0, 0, 0xffff, 0], 6], // IPv4-translated (SIIT)
  [[0x64, 0xff9b, 0, 0, 0, 0], 6], // NAT64
  [[0x2002], 1], // 6to4
]

const blocked = new BlockList()
for (const [network, prefix] of IPV4_BLOCKS) blocked.addSubnet(network, prefix, 'ipv4')
for (const [network, prefix] of IPV6_BLOCKS) blocked.addSubnet(network, prefix, 'ipv6')

/**
 * Returns whether an address is special. Also true for a text that is not an IP address, and for an IPv6 address with a
 * zone.
 */
export function isSpecialAddress(ip: string): boolean {
  if (isIPv4(ip)) return blocked.check(ip, 'ipv4')
  if (!isIPv6(ip) || ip.includes('%')) return true
  const groups = parseIpv6Groups(ip)
  for (const [prefix, at] of WRAPPERS) {
    if (prefix.every((group, i) => groups[i] === group)) return blocked.check(readIpv4At(groups, at), 'ipv4')
  }
  return blocked.check(ip, 'ipv6')
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** Whether an address belongs to the loopback interface of this machine. */
export const isLoopback = (ip: string): boolean => !ip.includes('%') && loopback.check(ip, isIPv4(ip) ? 'ipv4' : 'ipv6')

/** Whether the host of a URL, a name or an address, perhaps in brackets, is this machine. */
export function isLoopbackName(host: string): boolean {
  const address = host.replace(/^\[|\]$/g, '')
  return host === 'localhost' || (isIP(address) !== 0 && isLoopback(address))
}

/**
 * Returns whether this service may connect to an address.
 * @param allowedSpecial which special addresses are allowed: all, only those of this machine (127.0.0.0/8 and ::1, also
 * mapped into IPv6), or none
 */
export function canConnectTo(ip: string, allowedSpecial: boolean | 'loopback'): boolean {
  if (allowedSpecial === true || !isSpecialAddress(ip)) return true
  return allowedSpecial === 'loopback' && isLoopback(ip)
}

/** Returns the eight groups of a valid IPv6 address without a zone. */
export function parseIpv6Groups(ip: string): number[] {
  // An IPv4 tail, as in ::ffff:192.0.2.1, stands for two groups.
  const hex = ip.replace(/(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/, (_, a, b, c, d) => {
    const group = (high: string, low: string) => (Number(high) * 256 + Number(low)).toString(16)
    return `${group(a, b)}:${group(c, d)}`
  })
  const [head = '', tail] = hex.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((g) => Number.parseInt(g, 16)))
  const left = groups(head)
  const right = groups(tail ?? '')
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length
  return [...left, ...Array.from({ length: zeros }, () => 0), ...right]
}

/** Returns the IPv4 address that an IPv6 address embeds, from one of its groups. */
export function readIpv4At(groups: readonly number[], at: number): string {
  const [high = 0, low = 0] = groups.slice(at, at + 2)
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
}
