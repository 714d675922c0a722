/** @module What the checks of `tassis doctor` get, and what they may ask of the network. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { randomBelow } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { type DnsClient, StubResolver } from '#protocols/dns/resolver.ts'
import { parseServer, readSystemServers } from '#protocols/dns/servers.ts'
import { isLoopback } from '#protocols/dns/special-addresses.ts'
import type { RunningDelivery } from '../create.ts'

export interface DoctorContext {
  readonly config: Config
  readonly clock: Clock
  readonly resolver: DnsClient
  readonly sourceNames: SourceNames
  /** The service, when the checks run in it; `delivery` is undefined while mail is not delivered. */
  readonly service: { readonly app: App; readonly delivery: RunningDelivery | undefined } | undefined
  /** Undefined when there is no database that this program can read. */
  readonly db: Database | undefined
  /** Aborted when the checks end early. */
  readonly signal: AbortSignal
}

/** Short, so that the checks end in time when no server answers. */
const DNS_TIMEOUT_MS = seconds(1.5)

/** The configured servers, else those of the system. */
export const listDnsServers = ({ dnsServers }: Pick<Config, 'dnsServers'>): readonly string[] =>
  dnsServers.length > 0 ? dnsServers : readSystemServers()

/** A resolver for the checks alone; its caller closes it. Believes the servers about DNSSEC, to report what they say. */
export const createDoctorResolver = (servers: readonly string[], clock: Clock): DnsClient =>
  new StubResolver({
    servers,
    clock,
    timeoutMs: DNS_TIMEOUT_MS,
    randomId: () => randomBelow(65_536),
    trustsAuthenticity: true,
  })

/** Why nothing may be asked of the network; undefined: it may. Tests and trials never leave the machine. */
export function findNetworkObstacle(
  config: Pick<Config, 'delivery' | 'allowPrivateNetworks' | 'dnsServers'>,
): string | undefined {
  if (config.delivery === 'capture') return 'Not checked: no mail leaves this machine in delivery mode capture.'
  const areServersLocal = listDnsServers(config).every((server) => isLoopback(parseServer(server).host))
  return config.allowPrivateNetworks === false || areServersLocal
    ? undefined
    : 'Not checked: TASSIS_ALLOW_PRIVATE_NETWORKS is set, so this service is for tests.'
}

/** Whether the checks may connect to an address that the operator named: not beyond this machine in tests. */
export const mayConnect = ({ allowPrivateNetworks }: Pick<Config, 'allowPrivateNetworks'>, ip: string): boolean =>
  allowPrivateNetworks === false || isLoopback(ip)
