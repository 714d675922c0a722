/**
 * @module Forward-confirmed reverse DNS (RFC 8601 §3): the names of an address's PTR records that lead back to it.
 */
import { isIPv6 } from 'node:net'
import { toArpaName } from './message.ts'
import { isFailedAnswer, type Resolver } from './resolver.ts'

/** Names looked up for one address, as for SPF (RFC 7208 §4.6.4). */
const MAX_NAMES = 10

export type ReverseName =
  /** `names` lead back to the address. */
  | { readonly kind: 'confirmed'; readonly names: readonly string[] }
  /** None of `names` leads back to the address; empty: it has no PTR record. */
  | { readonly kind: 'unconfirmed'; readonly names: readonly string[] }
  /** DNS gave no answer; a later attempt may get one. */
  | { readonly kind: 'unknown' }

export async function confirmReverseName(resolver: Resolver, ip: string): Promise<ReverseName> {
  const answer = await resolver.ptr(ip)
  if (isFailedAnswer(answer)) return { kind: 'unknown' }
  const names = answer.kind === 'ok' ? answer.records.slice(0, MAX_NAMES) : []
  const forward = await Promise.all(names.map((name) => (isIPv6(ip) ? resolver.aaaa(name) : resolver.a(name))))
  const arpaName = toArpaName(ip)
  const confirmed = names.filter((_, index) => {
    const found = forward[index]
    return found?.kind === 'ok' && found.records.some((address) => toArpaName(address) === arpaName)
  })
  if (confirmed.length > 0) return { kind: 'confirmed', names: confirmed }
  return forward.some(isFailedAnswer) ? { kind: 'unknown' } : { kind: 'unconfirmed', names }
}
