/** @module Finds the DNS zone in which a name is, by the NS records of the closest name at or above it that has some. */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { findRegistrableDomain } from './name.ts'

export interface DnsZone {
  readonly name: string
  /** Its name servers, sorted; empty when none were found. */
  readonly nameServers: readonly string[]
}

const MAX_NAME_SERVERS = 16

/**
 * The zone of a name. Never looks above the registrable domain: a registry's servers are not those of the owner. That
 * domain is also the result when DNS names no server, because it has none or did not respond.
 */
export async function findZone(resolver: Resolver, name: string): Promise<DnsZone> {
  const top = findRegistrableDomain(name) ?? name
  for (let zone = name; ; zone = zone.slice(zone.indexOf('.') + 1)) {
    const found = await resolver.ns(zone)
    if (found.kind === 'ok')
      return { name: zone, nameServers: [...new Set(found.records)].sort().slice(0, MAX_NAME_SERVERS) }
    // Other names of the zone have the same silent servers.
    if (found.kind === 'timeout' || zone === top || !zone.endsWith(`.${top}`)) return { name: top, nameServers: [] }
  }
}
