/**
 * @module Resolves the route of a lane: the simulator, the capture server, where an operator redirects it, the
 * smarthost, or the MX hosts of the domain with their addresses. Remembers for a while which addresses did not answer
 * and which broke TLS, so that this costs one timeout and not one for each connection. Never dials.
 */
import { isIP, isIPv4, isIPv6 } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, domainOfLane, SANDBOX_LANE, SIMULATOR_LANE } from '#features/sending/queue/lanes.ts'
import { findRedirect } from '#features/sending/queue/queue-rules.ts'
import {
  chooseTlsPolicy,
  type DemandSource,
  nameSite,
} from '#features/sending/transport-security/transport-security.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { shuffle } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import type { Clock } from '#platform/time/clock.ts'
import { hours, type Millis, minutes } from '#platform/units.ts'
import {
  type HostAddresses,
  type HostWithAddresses,
  type MailRoute,
  resolveHostAddresses,
  resolveMailHosts,
  resolveRouteAddresses,
} from '#protocols/dns/mail-route.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import { allowsMailHost } from '#protocols/smtp/mta-sts.ts'
import { type AddressFailure, type BounceCategory, CAPTURE_HOST, type Route, type RouteHost } from '../protocol.ts'
import { formatTarget, parseTarget, type RedirectTarget } from '../providers/lane-provider.ts'
import { mayUseIpv6, usesIpv6 } from '../providers/outbound-sources.ts'
import { OVERFLOW_PROVIDER, SMARTHOST_PROVIDER } from '../providers/registry.ts'

export type RouteResult =
  | { readonly kind: 'route'; readonly route: Route }
  /** A policy of the domain is being fetched; `ready` resolves when the route should be looked up again. */
  | { readonly kind: 'pending'; readonly ready: Promise<void> }
  /**
   * `undeliverable`: permanent, every recipient of the lane bounces; `text` is shown as the reply and starts with the
   * status codes. `temporary`: the mail is tried again later.
   */
  | { readonly kind: 'undeliverable' | 'temporary'; readonly category: BounceCategory; readonly text: string }

/** Addresses of the servers of this process that receive mail; known once they listen. */
export interface LocalServers {
  readonly capture: LocalAddress
  readonly simulator: LocalAddress
}

interface LocalAddress {
  readonly host: string
  readonly port: number
}

/** @param provider of the lane, for redirects; only needed while `hasProviderRules` */
export async function routeLane(
  app: App,
  lane: string,
  { capture, simulator }: LocalServers,
  security: DemandSource,
  provider?: string,
): Promise<RouteResult> {
  const domain = domainOfLane(lane)
  // Each account has a site of its own, so that what it simulates delays no other account.
  if (domain === SIMULATOR_LANE)
    return { kind: 'route', route: buildLocalRoute(`${accountOfLane(lane)}.simulator.invalid`, simulator) }
  if (domain === SANDBOX_LANE || app.config.delivery === 'capture')
    return { kind: 'route', route: buildLocalRoute(CAPTURE_HOST, capture) }
  const redirect = parseTarget(findRedirect(app.db, lane, provider) ?? '')
  const ipv6 = mayUseIpv6(app, accountOfLane(lane))
  if (redirect) return resolveRedirectRoute(app, redirect, security, ipv6)
  if (app.config.delivery === 'relay') return resolveSmarthostRoute(app, SMARTHOST_PROVIDER)
  return resolveDirectRoute(app, domain, security, ipv6)
}

const buildLocalRoute = (name: string, { host, port }: LocalAddress): Route => ({
  site: name,
  hosts: [{ host: name, addresses: [host] }],
  port,
  fromOutboundIps: false,
  tls: 'never',
})

/**
 * The route of redirected mail. A host that the operator names may have any address, like a smarthost; the MX hosts of
 * a domain may not. A target that does not resolve bounces nothing.
 */
async function resolveRedirectRoute(
  app: App,
  target: RedirectTarget,
  security: DemandSource,
  ipv6: boolean,
): Promise<RouteResult> {
  const { host, isHost, port = app.config.smtpPort } = target
  const found = isHost ? await resolveNamedHost(app, host) : await resolveDirectRoute(app, host, security, ipv6)
  if (found.kind === 'pending') return found
  if (found.kind !== 'route')
    return temporary(`451 4.4.4 The operator redirects this mail to ${formatTarget(target)}: ${found.text}`)
  const { site } = found.route
  return {
    kind: 'route',
    route: { ...found.route, port, site: port === app.config.smtpPort ? site : `${site}:${port}` },
  }
}

async function resolveNamedHost(app: App, host: string): Promise<RouteResult> {
  const resolved = await resolveOwnHost(app, host)
  if (resolved.kind !== 'ok') return temporary(`${host} does not resolve to an address`)
  const hosts = [{ host, addresses: resolved.addresses }]
  return {
    kind: 'route',
    route: { site: host, hosts, port: app.config.smtpPort, fromOutboundIps: true, tls: 'opportunistic' },
  }
}

/** The addresses of a host that the operator names: IPv4 first, and those in random order, so that they share the load. */
async function resolveOwnHost(app: App, host: string): Promise<HostAddresses | { kind: 'ok'; addresses: string[] }> {
  if (isIP(host)) return { kind: 'ok', addresses: [host] }
  const found = await resolveHostAddresses(app.resolver, host, { ipv6: usesIpv6(app.config) })
  if (found.kind !== 'ok') return found
  return { kind: 'ok', addresses: shuffle(found.addresses).sort((a, b) => Number(isIPv6(a)) - Number(isIPv6(b))) }
}

/** The operator chose the smarthost, so any address is allowed. */
export async function resolveSmarthostRoute(
  app: App,
  smarthost: NonNullable<Route['smarthost']>,
): Promise<RouteResult> {
  const url = new URL(smarthost === OVERFLOW_PROVIDER ? app.config.overflowUrl : app.config.relayUrl)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isImplicit = url.protocol === 'smtps:'
  const resolved = await resolveOwnHost(app, host)
  if (resolved.kind !== 'ok') return temporary(`The smarthost ${host} does not resolve to an address`)
  return {
    kind: 'route',
    route: {
      site: smarthost === OVERFLOW_PROVIDER ? 'overflow' : 'relay',
      smarthost,
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

async function resolveDirectRoute(
  app: App,
  domain: string,
  security: DemandSource,
  ipv6: boolean,
): Promise<RouteResult> {
  // Begins the look for a policy; its result is read when the hosts are known.
  security.findSts(domain)
  const mail = await resolveMailHosts(app.resolver, domain, { shuffle: shuffle })
  switch (mail.kind) {
    case 'null-mx':
      return undeliverable(`556 5.1.10 ${domain} does not accept mail (null MX)`, 'invalid_recipient')
    case 'nxdomain':
      return undeliverable(`550 5.1.2 The domain ${domain} does not exist`)
    case 'no-mail-host':
      return undeliverable(`550 5.1.2 The domain ${domain} has no MX, A or AAAA record`)
    case 'literal-mx':
      return undeliverable(`550 5.4.4 The MX records of ${domain} contain IP addresses instead of host names`)
    case 'loop':
      return temporary(`451 4.4.3 The aliases (CNAME) of ${domain} form a loop`)
    case 'temporary':
      return temporary(`451 4.4.3 ${mail.reason}`)
    case 'ok':
      return resolveHostsRoute(app, domain, mail, security, ipv6)
  }
}

const noRoute =
  (kind: 'undeliverable' | 'temporary') =>
  (text: string, category: BounceCategory = 'dns_failure'): RouteResult => ({ kind, category, text })
const undeliverable = noRoute('undeliverable')
const temporary = noRoute('temporary')

async function resolveHostsRoute(
  app: App,
  domain: string,
  mail: Extract<MailRoute, { kind: 'ok' }>,
  security: DemandSource,
  ipv6: boolean,
): Promise<RouteResult> {
  const { hosts } = mail
  const found = await resolveRouteAddresses(app.resolver, hosts, { ipv6 })
  if (found.kind === 'temporary') return temporary(`451 4.4.3 ${found.reason}`)
  if (found.kind === 'no-address') {
    const names = hosts.map(({ host }) => host).join(', ')
    return undeliverable(`550 5.4.4 None of the mail hosts of ${domain} (${names}) has an address`)
  }
  const usable = found.hosts.flatMap((host) => {
    const addresses = host.addresses.filter((address) => canConnectTo(address, app.config.allowPrivateNetworks))
    return addresses.length > 0 ? [{ ...host, addresses }] : []
  })
  if (usable.length === 0) return temporary(`451 4.4.4 All mail hosts of ${domain} have private or reserved addresses`)
  return secureHosts(app, domain, usable, mail.isSecure === true, security)
}

/**
 * The route over these hosts with what the policies of the domain (MTA-STS) and of its hosts (DANE) demand.
 * @param isSecure whether DNSSEC protects the names of the hosts
 */
async function secureHosts(
  app: App,
  domain: string,
  hosts: readonly HostWithAddresses[],
  isSecure: boolean,
  security: DemandSource,
): Promise<RouteResult> {
  const isDaneOn = isSecure && (await security.isDaneOn())
  const withTlsa = await Promise.all(
    hosts.map(async (host) => ({
      host,
      // Broken name servers of zones without DNSSEC do not answer the question (RFC 7672 §2.2.2).
      tlsa: isDaneOn && host.isSecure ? await security.findTlsa(host.host) : [],
    })),
  )
  const sts = security.findSts(domain)
  if (sts instanceof Promise) return { kind: 'pending', ready: sts }
  const names = hosts.map(({ host }) => host).join(', ')
  const reachable = withTlsa.flatMap(({ host, tlsa }) => (tlsa === 'unknown' ? [] : [{ host, tlsa }]))
  if (reachable.length === 0)
    return temporary(
      `DNSSEC protects the mail hosts of ${domain}, but the TLSA records (DANE) of ${names} cannot be looked up`,
      'tls_failure',
    )
  const route = reachable.flatMap(({ host: { host, addresses }, tlsa }): RouteHost[] => {
    const demand = chooseTlsPolicy(domain, sts.policy, tlsa)
    // DANE comes before MTA-STS (RFC 8461 §2).
    const isForbidden = sts.policy?.mode === 'enforce' && demand?.by !== 'dane' && !allowsMailHost(sts.policy, host)
    return isForbidden ? [] : [{ host, addresses, ...(demand && { demand }) }]
  })
  if (route.length === 0)
    return temporary(
      `${domain} demands verified TLS (MTA-STS, enforce): its policy allows none of its mail hosts (${names})`,
      'tls_failure',
    )
  const site = nameSite(
    route.map(({ host }) => host),
    route.map(({ demand }) => demand),
  )
  return {
    kind: 'route',
    route: { site, hosts: route, port: app.config.smtpPort, fromOutboundIps: true, tls: 'opportunistic' },
  }
}

/** How long an address that did not answer is dialled last: doubles with each failure in a row. */
const MIN_SILENT_MS = minutes(5)
const MAX_MEMORY_MS = hours(1)
/** How long TLS is not tried with an address that broke a handshake. */
const BROKEN_TLS_MS = hours(1)
/** After so many silent IPv6 addresses in a row our IPv6 does not work: all are dialled last. */
const MAX_SILENT_IPV6 = 3
const IPV6_MS = minutes(30)
/** How long a provider that rejected our IPv6 is not dialled over it. */
const REFUSED_IPV6_MS = hours(6)
/** Remembered addresses of each kind; the oldest is evicted. */
const MAX_ADDRESSES = 10_000

export class FailedAddresses {
  readonly #clock: Pick<Clock, 'now'>
  readonly #silent = new Map<string, { readonly until: Millis; readonly failures: number }>()
  readonly #brokenTls = new Map<string, Millis>()
  /** IPv6 addresses that did not answer since the last IPv6 session. */
  readonly #silentIpv6 = new Set<string>()
  #ipv6Until: Millis = 0
  /** By provider. */
  readonly #refusedIpv6 = new Map<string, Millis>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  record({ address, kind }: AddressFailure): void {
    const now = this.#clock.now()
    if (kind === 'tls') {
      storeNewest(this.#brokenTls, address, now + BROKEN_TLS_MS, MAX_ADDRESSES)
      return
    }
    const earlier = this.#silent.get(address)
    // Attempts that began before the failure was known fail as well, and count once.
    if (earlier && this.#isAhead(earlier.until)) return
    const failures = (earlier?.failures ?? 0) + 1
    const delayMs = backoffDelayMs(failures, { minMs: MIN_SILENT_MS, maxMs: MAX_MEMORY_MS })
    storeNewest(this.#silent, address, { until: now + delayMs, failures }, MAX_ADDRESSES)
    if (!isIPv6(address)) return
    if (this.#silentIpv6.size < MAX_SILENT_IPV6) this.#silentIpv6.add(address)
    if (this.#silentIpv6.size >= MAX_SILENT_IPV6) this.#ipv6Until = now + IPV6_MS
  }

  /** Records that an address accepted a connection. */
  recordSession(address: string): void {
    this.#silent.delete(address)
    if (this.#silentIpv6.size === 0 || !isIPv6(address)) return
    this.#silentIpv6.clear()
    this.#ipv6Until = 0
  }

  /** Records that a provider rejects our IPv6 as such. Returns whether that is new. */
  withdrawIpv6(provider: string): boolean {
    const isNew = !this.#isAhead(this.#refusedIpv6.get(provider) ?? 0, REFUSED_IPV6_MS)
    if (isNew) storeNewest(this.#refusedIpv6, provider, this.#clock.now() + REFUSED_IPV6_MS, MAX_ADDRESSES)
    return isNew
  }

  /** The route without IPv6 if the provider rejected it, silent addresses last, and those at which TLS is not tried. */
  apply(given: Route, provider = ''): Route {
    const isRefused =
      given.hosts.some(({ addresses }) => addresses.some(isIPv4)) &&
      this.#isAhead(this.#refusedIpv6.get(provider) ?? 0, REFUSED_IPV6_MS)
    const route = isRefused ? { ...given, hosts: pickAddresses(given, (address) => !isIPv6(address)) } : given
    if (this.#silent.size === 0 && this.#brokenTls.size === 0) return route
    const addresses = route.hosts.flatMap((host) => host.addresses)
    const last = new Set(addresses.filter((address) => this.#isSilent(address)))
    const plaintext = addresses.filter((address) => this.#isAhead(this.#brokenTls.get(address) ?? 0))
    const pick = (isLast: boolean) => pickAddresses(route, (address) => last.has(address) === isLast)
    return {
      ...route,
      ...(last.size > 0 && { hosts: [...pick(false), ...pick(true)] }),
      ...(plaintext.length > 0 && route.tls === 'opportunistic' && { plaintextAddresses: plaintext }),
    }
  }

  #isSilent(address: string): boolean {
    return (isIPv6(address) && this.#isAhead(this.#ipv6Until)) || this.#isAhead(this.#silent.get(address)?.until ?? 0)
  }

  /** Whether a time is still to come. One that is too far away was computed under a fast clock, and has passed. */
  #isAhead(until: Millis, maxMs = MAX_MEMORY_MS): boolean {
    const leftMs = until - this.#clock.now()
    return leftMs > 0 && leftMs <= maxMs
  }
}

/** The hosts of a route with these of their addresses, without those that have none. */
const pickAddresses = ({ hosts }: Route, isWanted: (address: string) => boolean): RouteHost[] =>
  hosts.flatMap((host) => {
    const addresses = host.addresses.filter(isWanted)
    return addresses.length > 0 ? [{ ...host, addresses }] : []
  })
