/**
 * @module Forward-confirmed reverse DNS (RFC 8601 §3): the names of an address's PTR records that lead back to it.
 */
import { isIPv6 } from 'node:net'
import { toArpaName } from './message.ts'
import { isFailedAnswer, type Resolver } from './resolver.ts'

/** Names looked up for one address, as for SPF (RFC 7208 §4.6.4). */
const MAX_NAMES = 10
/** A PTR record can hold anything; only valid host names are looked up and shown. */
const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})+$/

export type ReverseName =
  /** `names` lead back to the address. */
  | { readonly kind: 'confirmed'; readonly names: readonly string[] }
  /** None of `names` leads back to the address; empty: it has no PTR record with a host name. */
  | { readonly kind: 'unconfirmed'; readonly names: readonly string[] }
  /** DNS gave no answer; a later attempt may get one. */
  | { readonly kind: 'unknown' }

/** Never throws. */
export async function confirmReverseName(
  resolver: Pick<Resolver, 'a' | 'aaaa' | 'ptr'>,
  ip: string,
): Promise<ReverseName> {
  const answer = await resolver.ptr(ip)
  if (isFailedAnswer(answer)) return { kind: 'unknown' }
  const all = answer.kind === 'ok' ? answer.records : []
  const names = [...new Set(all)].filter((name) => HOST_NAME.test(name)).slice(0, MAX_NAMES)
  const forward = await Promise.all(names.map((name) => (isIPv6(ip) ? resolver.aaaa(name) : resolver.a(name))))
  const arpaName = toArpaName(ip)
  const confirmed = names.filter((_, index) => {
    const found = forward[index]
    return found?.kind === 'ok' && found.records.some((address) => toArpaName(address) === arpaName)
  })
  if (confirmed.length > 0) return { kind: 'confirmed', names: confirmed }
  return forward.some(isFailedAnswer) ? { kind: 'unknown' } : { kind: 'unconfirmed', names }
}
