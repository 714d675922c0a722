/**
 * @module Finds the client's address behind proxies. Trusts `X-Forwarded-For` only as far as trusted proxies wrote it.
 */
import { BlockList, isIP } from 'node:net'

/** Returns a predicate for addresses within the networks, which the configuration has validated. */
export function createNetworkMatcher(networks: readonly string[]): (address: string) => boolean {
  if (networks.length === 0) return () => false
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return (address) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/**
 * The client's address: `peer` or, if the peer is a trusted proxy, the rightmost address in `forwardedFor` that is not
 * a trusted proxy's. The search ends at an invalid entry; the result is then the proxy that passed the entry on.
 */
export function resolveClientIp(
  peer: string,
  forwardedFor: string | null,
  isTrustedProxy: (address: string) => boolean,
): string {
  let client = unmapIpv4(peer)
  if (forwardedFor === null) return client
  const hops = forwardedFor.split(',')
  for (let i = hops.length - 1; i >= 0 && isTrustedProxy(client); i--) {
    const hop = parseHop(hops[i] ?? '')
    if (hop === undefined) break
    client = hop
  }
  return client
}

/**
 * `::ffff:192.0.2.1`, also written `::ffff:c000:201` (RFC 4291 §2.5.5.2), is converted to the IPv4 address that it
 * contains.
 */
function unmapIpv4(address: string): string {
  const [, dotted, high, low] = MAPPED_IPV4.exec(address) ?? []
  if (dotted !== undefined) return dotted
  if (high === undefined || low === undefined) return address
  const bits = [high, low].map((group) => Number.parseInt(group, 16))
  return bits.flatMap((group) => [group >> 8, group & 255]).join('.')
}

const MAPPED_IPV4 =
  /^(?:::|(?:0{1,4}:){5}|(?:0{1,4}:){1,4}:)(?:ffff):(?:(\d+\.\d+\.\d+\.\d+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i

/** Some proxies add a port: `192.0.2.1:1234`, `[2001:db8::1]:1234`. */
function parseHop(hop: string): string | undefined {
  const text = hop.trim()
  const bare = /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text
  const address = unmapIpv4(bare)
  return isIP(address) === 0 ? undefined : address
}
