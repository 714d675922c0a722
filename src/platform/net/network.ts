/** @module Reads IP addresses, and maps that of a remote client to the networks under which it is counted. */
import { isIPv6 } from 'node:net'

/**
 * The network under which an address is counted. For an IPv4 address, also one mapped into IPv6, that is the address
 * itself; for an IPv6 address its /64, because a provider assigns one to each customer. Accepts an address as a socket
 * reports it.
 */
export const networkOf = (address: string): string => networksOf(address)[0] ?? address

/**
 * The networks of an address, smallest first. An IPv4 address has only itself. An IPv6 address has its /64, and the /56
 * and /48 that one customer may have (RFC 6177 §2), so that such a customer does not get the limits of 256 or 65,536
 * networks. Accepts an address as a socket reports it.
 */
export function networksOf(address: string): readonly string[] {
  const text = unmapIpv4((address.split('%', 1)[0] ?? '').toLowerCase())
  if (!isIPv6(text)) return [text]
  const [a = 0, b = 0, c = 0, d = 0] = parseIpv6Groups(text)
  const named = (bits: number, ...leading: number[]): string =>
    `${leading.map((group) => group.toString(16)).join(':')}::/${bits}`
  return [named(64, a, b, c, d), named(56, a, b, c, d & 0xff00), named(48, a, b, c)]
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

/** The IPv4 address in two groups. */
export const toIpv4 = (groups: readonly number[]): string =>
  groups.flatMap((group) => [group >> 8, group & 0xff]).join('.')

/** Turns `::ffff:192.0.2.1`, in any spelling (RFC 4291 §2.5.5.2), into the IPv4 address that it contains. */
export function unmapIpv4(address: string): string {
  if (!isIPv6(address) || address.includes('%')) return address
  const groups = parseIpv6Groups(address)
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  return isMapped ? toIpv4(groups.slice(6)) : address
}
