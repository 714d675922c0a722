/**
 * @module Resolves the route of a lane: the simulator, the capture server, the smarthost, or the MX hosts of the domain with
 * their addresses. Never dials.
 */
import { isIP } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, domainOfLane, SANDBOX_LANE, SIMULATOR_LANE } from '#features/sending/queue/lanes.ts'
import { shuffle } from '#platform/ids.ts'
import {
  type MailHost,
  resolveHostAddresses,
  resolveMailHosts,
  resolveRouteAddresses,
} from '#protocols/dns/mail-route.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import type { BounceCategory } from './bounce-category.ts'
import type { Route } from './protocol.ts'

export type RouteResult =
  | { readonly kind: 'route'; readonly route: Route }
  /** Permanent: every recipient of the lane bounces. `text` is shown as the reply and starts with the status codes. */
  | { readonly kind: 'undeliverable'; readonly category: BounceCategory; readonly text: string }
  /** The mail is tried again later. */
  | { readonly kind: 'temporary'; readonly category: BounceCategory; readonly text: string }

/** Addresses of the servers of this process that receive mail; known once they listen. */
export interface LocalServers {
  readonly capture: LocalAddress
  readonly simulator: LocalAddress
}

interface LocalAddress {
  readonly host: string
  readonly port: number
}

export async function routeLane(app: App, lane: string, { capture, simulator }: LocalServers): Promise<RouteResult> {
  const domain = domainOfLane(lane)
  if (domain === SIMULATOR_LANE) return { kind: 'route', route: buildSimulatorRoute(simulator, accountOfLane(lane)) }
  if (domain === SANDBOX_LANE || app.config.delivery === 'capture')
    return { kind: 'route', route: buildCaptureRoute(capture) }
  if (app.config.delivery === 'relay') return resolveRelayRoute(app)
  return resolveDirectRoute(app, domain)
}

/**
 * A name that no mail host can have (RFC 6761 §6.4), so that no other site shares the sessions of the capture server.
 */
const buildCaptureRoute = (address: LocalAddress): Route => buildLocalRoute('capture.invalid', address)

/** Each account has a site of its own, so that what it simulates delays no other account. */
const buildSimulatorRoute = (address: LocalAddress, accountId: number): Route =>
  buildLocalRoute(`${accountId}.simulator.invalid`, address)

const buildLocalRoute = (name: string, { host, port }: LocalAddress): Route => ({
  site: name,
  hosts: [{ host: name, addresses: [host] }],
  port,
  fromOutboundIps: false,
  tls: 'never',
})

/** The operator chose the smarthost, so any address is allowed. */
async function resolveRelayRoute(app: App): Promise<RouteResult> {
  const url = new URL(app.config.relayUrl)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isImplicit = url.protocol === 'smtps:'
  const resolved = isIP(host)
    ? ({ kind: 'ok', addresses: [host] } as const)
    : await resolveHostAddresses(app.resolver, host, { ipv6: app.config.ipv6 })
  if (resolved.kind !== 'ok')
    return {
      kind: 'temporary',
      category: 'dns_failure',
      text: `The smarthost ${host} does not resolve to an address`,
    }
  return {
    kind: 'route',
    route: {
      site: 'relay',
      hosts: [{ host, addresses: resolved.addresses }],
      port: url.port === '' ? (isImplicit ? 465 : 587) : Number(url.port),
      fromOutboundIps: true,
      tls: isImplicit ? 'implicit' : app.config.relayTls,
      ...(url.username !== '' && {
        auth: { user: decodeURIComponent(url.username), password: decodeURIComponent(url.password) },
      }),
    },
  }
}

async function resolveDirectRoute(app: App, domain: string): Promise<RouteResult> {
  const mail = await resolveMailHosts(app.resolver, domain, { shuffle: shuffle })
  switch (mail.kind) {
    case 'null-mx':
      return {
        kind: 'undeliverable',
        category: 'invalid_recipient',
        text: `556 5.1.10 ${domain} does not accept mail (null MX)`,
      }
    case 'nxdomain':
      return { kind: 'undeliverable', category: 'dns_failure', text: `550 5.1.2 The domain ${domain} does not exist` }
    case 'no-mail-host':
      return {
        kind: 'undeliverable',
        category: 'dns_failure',
        text: `550 5.1.2 The domain ${domain} has no MX, A or AAAA record`,
      }
    case 'literal-mx':
      return {
        kind: 'undeliverable',
        category: 'dns_failure',
        text: `550 5.4.4 The MX records of ${domain} contain IP addresses instead of host names`,
      }
    case 'loop':
      return {
        kind: 'temporary',
        category: 'dns_failure',
        text: `451 4.4.3 The aliases (CNAME) of ${domain} form a loop`,
      }
    case 'temporary':
      return { kind: 'temporary', category: 'dns_failure', text: `451 4.4.3 ${mail.reason}` }
    case 'ok':
      return resolveHostsRoute(app, domain, mail.hosts)
  }
}

async function resolveHostsRoute(app: App, domain: string, hosts: readonly MailHost[]): Promise<RouteResult> {
  const found = await resolveRouteAddresses(app.resolver, hosts, { ipv6: app.config.ipv6 })
  if (found.kind === 'temporary')
    return { kind: 'temporary', category: 'dns_failure', text: `451 4.4.3 ${found.reason}` }
  if (found.kind === 'no-address') {
    const names = hosts.map(({ host }) => host).join(', ')
    return {
      kind: 'undeliverable',
      category: 'dns_failure',
      text: `550 5.4.4 None of the mail hosts of ${domain} (${names}) has an address`,
    }
  }
  const usable = found.hosts.flatMap(({ host, addresses }) => {
    const allowed = addresses.filter((address) => canConnectTo(address, app.config.allowPrivateNetworks))
    return allowed.length > 0 ? [{ host, addresses: allowed }] : []
  })
  if (usable.length === 0)
    return {
      kind: 'temporary',
      category: 'dns_failure',
      text: `451 4.4.4 All mail hosts of ${domain} have private or reserved addresses`,
    }
  const site = usable
    .map(({ host }) => host)
    .sort()
    .join(',')
  return {
    kind: 'route',
    route: { site, hosts: usable, port: app.config.smtpPort, fromOutboundIps: true, tls: 'opportunistic' },
  }
}
