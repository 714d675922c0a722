/** @module Builds `App.fetch`: its DNS client and the addresses it may connect to. */
import { BlockList, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { App } from '#features/core/app/app.ts'
import { type HostLookup, SafeFetch } from '#platform/net/safe-fetch.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import type { DnsClient, Resolver } from '#protocols/dns/resolver.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'

export interface OutgoingOptions extends Pick<App, 'config' | 'clock' | 'ownPorts'> {
  readonly resolver: DnsClient
  /** From `readCertificateAuthorities`. */
  readonly authorities: readonly string[] | undefined
}

/** Creates the fetch; it opens no connection until called. */
export function createOutgoingFetch({ config, clock, resolver, ownPorts, authorities }: OutgoingOptions): SafeFetch {
  return new SafeFetch({
    clock,
    lookUp: (host) => lookUpHost(resolver, host),
    isDnsWorking: () => resolver.isAnswering(),
    findRefusal(address, port, allowsPrivate) {
      if (!canConnectTo(address, allowsPrivate || config.allowPrivateNetworks)) return NOT_PUBLIC_PROBLEM
      // Refuses the service's own ports even where private networks are allowed: a tenant's request would arrive there
      // from this machine's own address, which may be trusted.
      return ownPorts.has(port) && isOwnAddress(address) ? describeOwnPort(port) : undefined
    },
    ca: authorities,
  })
}

const NOT_PUBLIC_PROBLEM =
  'is private, loopback or reserved; the operator can allow such addresses with TASSIS_ALLOW_PRIVATE_NETWORKS.'

const describeOwnPort = (port: number): string =>
  `is this machine, and port ${port} belongs to the service itself; use the port of your own endpoint.`

async function lookUpHost(resolver: Resolver, host: string): Promise<HostLookup> {
  const found = await resolveHostAddresses(resolver, host, { ipv6: true })
  switch (found.kind) {
    case 'ok':
      return found
    case 'temporary':
      return { kind: 'failed', reason: found.reason, isTemporary: true }
    case 'loop':
      return { kind: 'failed', reason: `The CNAME records of ${host} form a loop.`, isTemporary: false }
    case 'nodata':
    case 'nxdomain':
      return { kind: 'failed', reason: `${host} has no address in DNS.`, isTemporary: false }
  }
}

/** Whether `address` belongs to this machine; IPv4-mapped IPv6 (`::ffff:127.0.0.1`) counts as its IPv4 form. */
function isOwnAddress(address: string): boolean {
  const own = new BlockList()
  own.addSubnet('127.0.0.0', 8, 'ipv4')
  own.addSubnet('0.0.0.0', 8, 'ipv4')
  own.addAddress('::1', 'ipv6')
  own.addAddress('::', 'ipv6')
  // Read on each call: addresses change while the service runs.
  for (const { address: local, family } of Object.values(networkInterfaces()).flatMap((found) => found ?? [])) {
    own.addAddress(local.split('%', 1)[0] ?? '', family === 'IPv6' ? 'ipv6' : 'ipv4')
  }
  return own.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
