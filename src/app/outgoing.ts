/**
 * @module What `App.fetch` is made of: the service's own DNS client, the addresses that may be called, and the authorities that are trusted.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BlockList, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { getCACertificates } from 'node:tls'
import type { App } from '#features/core/app/app.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { type HostLookup, SafeFetch } from '#platform/safe-fetch.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import type { DnsClient, Resolver } from '#protocols/dns/resolver.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'

export interface OutgoingOptions extends Pick<App, 'config' | 'clock' | 'ownPorts'> {
  readonly resolver: DnsClient
  /** From `readCertificateAuthorities`. */
  readonly authorities: readonly string[] | undefined
}

/** Opens nothing until asked. */
export function createOutgoingFetch({ config, clock, resolver, ownPorts, authorities }: OutgoingOptions): SafeFetch {
  return new SafeFetch({
    clock,
    lookUp: (host) => lookUpHost(resolver, host),
    isDnsWorking: () => resolver.isAnswering(),
    findRefusal(address, port) {
      if (!canConnectTo(address, config.allowPrivateNetworks)) return NOT_PUBLIC_PROBLEM
      // Never ourselves, whatever is allowed: a tenant's request would come from an address that somebody trusts.
      return ownPorts.has(port) && isOwnAddress(address) ? describeOwnPort(port) : undefined
    },
    ca: authorities,
  })
}

const NOT_PUBLIC_PROBLEM =
  'is private, loopback or reserved: such addresses are not called unless the operator allows them with TASSIS_ALLOW_PRIVATE_NETWORKS.'

const describeOwnPort = (port: number): string =>
  `is this machine, and port ${port} there is the service itself, which is never called; give the port of your own endpoint.`

async function lookUpHost(resolver: Resolver, host: string): Promise<HostLookup> {
  const found = await resolveHostAddresses(resolver, host, { ipv6: true })
  switch (found.kind) {
    case 'ok':
      return found
    case 'temporary':
      return { kind: 'failed', reason: found.reason, isTemporary: true }
    case 'loop':
      return { kind: 'failed', reason: `The aliases of ${host} in DNS lead nowhere.`, isTemporary: false }
    case 'nodata':
    case 'nxdomain':
      return { kind: 'failed', reason: `${host} has no address in DNS.`, isTemporary: false }
  }
}

/** Whether a connection to `address` ends at this machine. IPv4 addresses in the form of IPv6 (`::ffff:127.0.0.1`) are those they stand for. */
function isOwnAddress(address: string): boolean {
  const own = new BlockList()
  own.addSubnet('127.0.0.0', 8, 'ipv4')
  own.addSubnet('0.0.0.0', 8, 'ipv4')
  own.addAddress('::1', 'ipv6')
  own.addAddress('::', 'ipv6')
  // Asked each time: addresses come and go while the service runs.
  for (const { address: local, family } of Object.values(networkInterfaces()).flatMap((found) => found ?? [])) {
    own.addAddress(local.split('%', 1)[0] ?? '', family === 'IPv6' ? 'ipv6' : 'ipv4')
  }
  return own.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/**
 * The authorities that endpoints may have their certificates from, PEM; undefined: only the usual ones. Throws ConfigError when
 * TASSIS_EXTRA_CA_FILE cannot be used.
 */
export function readCertificateAuthorities({
  extraCaFile: path,
}: Pick<Config, 'extraCaFile'>): readonly string[] | undefined {
  if (path === '') return undefined
  const createError = (what: string) =>
    new ConfigError(
      `TASSIS_EXTRA_CA_FILE is "${path}", which ${what}; give a readable file of PEM certificates or unset it.`,
    )
  let content: string
  try {
    content = readFileSync(path, 'utf8')
  } catch {
    throw createError('cannot be read')
  }
  const certificates = content.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  if (certificates.length === 0) throw createError('holds no certificate')
  for (const certificate of certificates) {
    try {
      new X509Certificate(certificate)
    } catch {
      throw createError('holds a certificate that cannot be read')
    }
  }
  // Whoever names any authorities replaces the usual ones.
  return [...getCACertificates('default'), ...certificates]
}
