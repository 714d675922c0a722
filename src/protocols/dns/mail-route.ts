/**
 * @module Resolves the mail route of a domain: its MX hosts in order of preference, and the addresses of a host (RFC
 * 5321 §5.1, null MX of RFC 7505). Never decides whether an address may be contacted (special-addresses.ts) and never
 * connects.
 */
import { isIP } from 'node:net'
import { type Answer, type FailedAnswer, isFailedAnswer, type MxRecord, type Resolver } from './resolver.ts'

export interface MailHost {
  readonly host: string
  readonly preference: number
}

export type MailRoute =
  | {
      readonly kind: 'ok'
      /** In the order to try them. */
      readonly hosts: readonly MailHost[]
      /** Whether the domain has no MX record and is its own mail host. */
      readonly implicit: boolean
      readonly ttlSeconds: number
      /** Present when DNSSEC protects the names of the hosts. */
      readonly isSecure?: true
    }
  /** The domain declares that it does not accept mail (RFC 7505): permanent, 5.1.10. */
  | { readonly kind: 'null-mx' }
  /** Permanent, 5.1.2. */
  | { readonly kind: 'nxdomain' }
  /** The domain exists but has neither an MX record nor an address: permanent, 5.1.2. */
  | { readonly kind: 'no-mail-host' }
  /** All MX records contain IP addresses instead of host names, and such names do not resolve: permanent, 5.4.4. */
  | { readonly kind: 'literal-mx' }
  /** Aliases form a loop; temporary. */
  | { readonly kind: 'loop' }
  /** `reason` is a sentence for people. */
  | { readonly kind: 'temporary'; readonly reason: string }

export type HostAddresses =
  /** IPv4 before IPv6. */
  | {
      readonly kind: 'ok'
      readonly addresses: readonly string[]
      readonly ttlSeconds: number
      /** Present when DNSSEC protects all of them. */
      readonly isSecure?: true
    }
  | { readonly kind: 'nxdomain' }
  /** The host exists but has no address of the requested kinds. */
  | { readonly kind: 'nodata' }
  | { readonly kind: 'loop' }
  | { readonly kind: 'temporary'; readonly reason: string }

const MAX_HOSTS = 20
const MAX_ADDRESSES = 20

/**
 * Resolves the mail hosts of `domain` (A-labels). Does not handle address literals.
 * @param shuffle puts hosts of equal preference into a random order, to spread the load (RFC 5321 §5.1)
 */
export async function resolveMailHosts(
  resolver: Resolver,
  domain: string,
  { shuffle }: { shuffle: <T>(items: readonly T[]) => T[] },
): Promise<MailRoute> {
  const answer = await resolver.mx(domain)
  switch (answer.kind) {
    case 'ok':
      return toMailRoute(answer, shuffle)
    case 'nodata':
      return resolveImplicitRoute(resolver, domain)
    case 'nxdomain':
    case 'loop':
      return { kind: answer.kind }
    default:
      return { kind: 'temporary', reason: describeFailure(answer, 'mail servers (MX)', domain) }
  }
}

function toMailRoute(
  { records, ttlSeconds, isSecure }: Extract<Answer<MxRecord>, { kind: 'ok' }>,
  shuffle: <T>(items: readonly T[]) => T[],
): MailRoute {
  // RFC 7505 §3: a null MX among other records is a mistake, so it is ignored.
  const valid = records.filter((r) => r.exchange !== '' && r.exchange !== '.')
  if (valid.length === 0) return { kind: 'null-mx' }
  // RFC 5321 §5.1: an MX names a host; an address in place of the name does not resolve.
  const usable = valid.filter((r) => isIP(r.exchange) === 0)
  if (usable.length === 0) return { kind: 'literal-mx' }
  const sorted = shuffle(usable).sort((a, b) => a.preference - b.preference)
  const hosts = new Map<string, MailHost>()
  for (const { exchange, preference } of sorted) {
    if (!hosts.has(exchange) && hosts.size < MAX_HOSTS) hosts.set(exchange, { host: exchange, preference })
  }
  return { kind: 'ok', hosts: [...hosts.values()], implicit: false, ttlSeconds, ...(isSecure && { isSecure }) }
}

async function resolveImplicitRoute(resolver: Resolver, domain: string): Promise<MailRoute> {
  // Queries IPv4 and IPv6: a host with only IPv6 is still a mail host, and the caller decides later whether to use
  // IPv6.
  const found = await resolveHostAddresses(resolver, domain, { ipv6: true })
  switch (found.kind) {
    case 'ok': {
      const host = domain.toLowerCase().replace(/\.$/, '')
      const { ttlSeconds, isSecure } = found
      return { kind: 'ok', hosts: [{ host, preference: 0 }], implicit: true, ttlSeconds, ...(isSecure && { isSecure }) }
    }
    // Not `nxdomain`, because the MX response showed that the name exists.
    case 'nodata':
    case 'nxdomain':
      return { kind: 'no-mail-host' }
    default:
      return found
  }
}

/** Resolves the addresses of a mail host. When only IPv4 or only IPv6 addresses can be resolved, returns those. */
export async function resolveHostAddresses(
  resolver: Resolver,
  host: string,
  { ipv6 }: { ipv6: boolean },
): Promise<HostAddresses> {
  const [a, aaaa] = await Promise.all([resolver.a(host), ipv6 ? resolver.aaaa(host) : undefined])
  const answers: Answer<string>[] = aaaa === undefined ? [a] : [a, aaaa]
  const found = answers.flatMap((answer) => (answer.kind === 'ok' ? [answer] : []))
  if (found.length > 0) {
    const addresses = [...new Set(found.flatMap((answer) => answer.records))].slice(0, MAX_ADDRESSES)
    const ttlSeconds = Math.min(...found.map((answer) => answer.ttlSeconds))
    const isSecure = found.every((answer) => answer.isSecure)
    return { kind: 'ok', addresses, ttlSeconds, ...(isSecure && { isSecure }) }
  }
  const failed = answers.find(isFailedAnswer)
  if (failed !== undefined) return { kind: 'temporary', reason: describeFailure(failed, 'addresses', host) }
  if (answers.some((answer) => answer.kind === 'loop')) return { kind: 'loop' }
  // A server that answers NXDOMAIN for only one of the types is broken, so the response for the other type counts.
  return { kind: answers.every((answer) => answer.kind === 'nxdomain') ? 'nxdomain' : 'nodata' }
}

export interface HostWithAddresses {
  readonly host: string
  readonly addresses: readonly string[]
  /** Present when DNSSEC protects the addresses. */
  readonly isSecure?: true
}

export type RouteAddresses =
  /** The hosts that have addresses, in the given order. */
  | { readonly kind: 'ok'; readonly hosts: readonly HostWithAddresses[] }
  /** None of the hosts exists or has an address: permanent, 5.4.4. */
  | { readonly kind: 'no-address' }
  | { readonly kind: 'temporary'; readonly reason: string }

export async function resolveRouteAddresses(
  resolver: Resolver,
  hosts: readonly MailHost[],
  { ipv6 }: { ipv6: boolean },
): Promise<RouteAddresses> {
  const names = hosts.map(({ host }) => host).join(', ')
  const all = await Promise.all(
    hosts.map(async ({ host }) => ({ host, ...(await resolveHostAddresses(resolver, host, { ipv6 })) })),
  )
  const usable = all.flatMap((found) => {
    if (found.kind !== 'ok') return []
    const { host, addresses, isSecure } = found
    return [{ host, addresses, ...(isSecure && { isSecure }) }]
  })
  if (usable.length > 0) return { kind: 'ok', hosts: usable }
  if (all.some(({ kind }) => kind === 'temporary' || kind === 'loop'))
    return { kind: 'temporary', reason: `The addresses of ${names} could not be looked up` }
  if (ipv6) return { kind: 'no-address' }
  const found = await resolveRouteAddresses(resolver, hosts, { ipv6: true })
  return found.kind === 'ok'
    ? { kind: 'temporary', reason: `${names} can be reached only over IPv6, which is disabled` }
    : found
}

function describeFailure(answer: FailedAnswer, what: string, name: string): string {
  switch (answer.kind) {
    case 'timeout':
      return `The DNS servers did not answer in time when asked for the ${what} of ${name}.`
    case 'servfail':
      return `The DNS servers could not look up the ${what} of ${name} (SERVFAIL).`
    case 'refused':
      return `The DNS servers refused to look up the ${what} of ${name}.`
  }
}
