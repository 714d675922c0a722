/**
 * @module Where an API key may be used: From domains, networks of its clients, and a time at which it expires. A key
 * never gives a key more than it has itself.
 */
import { isIP } from 'node:net'
import type { Actor, ActorLimits } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { createNetworkMatcher } from '#platform/http/client-ip.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { isCidr } from '#platform/settings/setting-kinds.ts'
import type { Millis } from '#platform/time/clock.ts'
import { parseDateTime } from '#platform/time/date-time.ts'
import { parseDomain } from '#protocols/address/domain.ts'

/** Maximum number of domains, and of networks. */
export const MAX_LIMIT_ENTRIES = 50

/** Limits as a request names them: null removes one, undefined leaves it. */
export interface LimitsInput {
  readonly expires_at?: string | null | undefined
  readonly domains?: readonly string[] | null | undefined
  readonly networks?: readonly string[] | null | undefined
}

/**
 * The limits after a request. Throws 422 for a malformed or empty one, and for one beyond what the actor itself has.
 * @param before those that stay where the request names none
 */
export function applyLimits(actor: Actor, before: ActorLimits, input: LimitsInput, now: Millis): ActorLimits {
  const { expires_at: expiresAt, domains, networks } = input
  const limits: ActorLimits = {
    expiresAt:
      expiresAt === undefined ? before.expiresAt : expiresAt === null ? undefined : parseExpiry(expiresAt, now),
    domains: domains === undefined ? before.domains : parseList('domains', domains, toDomain),
    networks: networks === undefined ? before.networks : parseList('networks', networks, parseNetwork),
  }
  requireWithin(actor.limits ?? {}, limits)
  return limits
}

function parseExpiry(text: string, now: Millis): Millis {
  const time = parseDateTime(text, 'zoned')
  if (time === undefined) throw invalid('expires_at', 'expires_at must be a date-time such as 2026-12-31T23:59:59Z.')
  if (time <= now) throw invalid('expires_at', 'expires_at must be in the future; to end a key now, delete it.')
  return time
}

/** Without an entry a key could do nothing, which is hardly meant. */
function parseList(
  field: 'domains' | 'networks',
  entries: readonly string[] | null,
  parse: (text: string, field: string) => string,
): readonly string[] | undefined {
  if (entries === null) return undefined
  if (entries.length === 0 || entries.length > MAX_LIMIT_ENTRIES)
    throw invalid(field, `${field} must have 1 to ${MAX_LIMIT_ENTRIES} entries; null means no restriction.`)
  return [...new Set(entries.map((entry, index) => parse(entry.trim(), `${field}.${index}`)))]
}

function toDomain(text: string, field: string): string {
  const parsed = parseDomain(text)
  if (parsed.kind === 'invalid') throw invalid(field, parsed.reason)
  return parsed.domain
}

function parseNetwork(text: string, field: string): string {
  if (!isCidr(text) || text.includes('%'))
    throw invalid(field, 'A network must be an address or a range such as 192.0.2.7 or 10.0.0.0/8.')
  return text
}

function requireWithin(own: ActorLimits, limits: ActorLimits): void {
  const { expiresAt, domains, networks } = limits
  if (own.expiresAt !== undefined && (expiresAt === undefined || expiresAt > own.expiresAt))
    throw beyond('expires_at', `expires at ${isoTime(own.expiresAt)}`)
  if (own.domains && !domains?.every((domain) => own.domains?.includes(domain)))
    throw beyond('domains', `is restricted to the domains ${own.domains.join(', ')}`)
  if (own.networks && !networks?.every((network) => isContained(network, own.networks ?? [])))
    throw beyond('networks', `is restricted to the networks ${own.networks.join(', ')}`)
}

const beyond = (field: string, reason: string): AppError =>
  invalid(field, `This key cannot give another key more than it has: it ${reason}.`, 'limit_exceeds_own')

/** Whether all addresses of a network are in one of the others. */
function isContained(network: string, others: readonly string[]): boolean {
  const [address = '', prefix] = network.split('/')
  const bits = isIP(address) === 6 ? 128 : 32
  const wider = others.filter((other) => {
    const [otherAddress = '', otherPrefix = String(bits)] = other.split('/')
    return isIP(otherAddress) === isIP(address) && Number(otherPrefix) <= Number(prefix ?? bits)
  })
  return createNetworkMatcher(wider)(address)
}

/** Throws 403 `domain_not_allowed` when the actor is a key that is restricted to other From domains. */
export function requireAllowedDomain({ limits }: Actor, domain: string): void {
  if (limits?.domains && !limits.domains.includes(domain))
    throw new AppError(
      403,
      'domain_not_allowed',
      `This API key may send from ${limits.domains.join(', ')} only, not from ${domain}; use another key, or add the domain to this one.`,
    )
}
