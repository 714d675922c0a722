/**
 * @module Checks that a tracking host leads to us: by a CNAME, or by having the same addresses, as through other names,
 * or at providers that flatten CNAMEs. Stores nothing.
 */
import { type Answer, isFailedAnswer, type Resolver } from '#protocols/dns/resolver.ts'
import * as result from './check-result.ts'
import { findRegistrableDomain } from './name.ts'

/**
 * Checks whether a tracking host leads to us, and if not, what its owner must change; `unknown` when DNS did not
 * respond. Both names are in lower case, the host in A-labels.
 */
export async function checkTracking(
  resolver: Resolver,
  { host, target }: Readonly<Record<'host' | 'target', string>>,
): Promise<result.Check> {
  const advice = `Publish a CNAME record at ${host} with the value ${target}`
  const aliases = result.toRecordsOrCheck(await resolver.cname(host), 'CNAME record', host)
  if (result.isCheck(aliases)) return aliases
  const [alias] = aliases
  if (alias === target) return result.verified(`${host} is an alias (CNAME) of ${target}.`)
  const found =
    alias === undefined ? `There is no CNAME at ${host}` : `The CNAME at ${host} points to ${result.quoteValue(alias)}`

  const hostAddresses = await resolveAddresses(resolver, host)
  if (result.isCheck(hostAddresses)) return hostAddresses
  if (hostAddresses.length > 0) {
    const ourAddresses = await resolveAddresses(resolver, target)
    if (result.isCheck(ourAddresses)) return ourAddresses
    if (hostAddresses.every((address) => ourAddresses.includes(address)))
      return result.verified(
        `${found}, but its addresses are those of ${target}, so it leads to us. If the addresses of ${target} change, those of ${host} must change too.`,
      )
  }
  if (alias !== undefined) {
    return result.wrong(
      `${found} and not to ${target}.`,
      alias.startsWith(`${target}.`) ? result.adviseFinalDot(target) : `Change its value to ${target}`,
    )
  }
  if (hostAddresses.length > 0) {
    return result.wrong(
      `${found}, and its addresses (${hostAddresses.slice(0, MAX_SHOWN_ADDRESSES).join(', ')}) are not those of ${target}.`,
      'If the DNS provider puts a proxy in front of it, disable the proxy for this name.',
      `Remove the address records. ${advice}`,
    )
  }
  const domain = findRegistrableDomain(host) ?? host
  const isOurs = (value: string) => value === target
  const hint = await result.findAbsenceHint(resolver, domain, host, (name) => resolver.cname(name), isOurs)
  return result.missing(`There is no CNAME record at ${host}.`, hint, advice)
}

const MAX_SHOWN_ADDRESSES = 4

/** The addresses of a name, IPv4 first; a check result when either query failed. */
async function resolveAddresses(resolver: Resolver, name: string): Promise<readonly string[] | result.Check> {
  const answers: readonly Answer<string>[] = await Promise.all([resolver.a(name), resolver.aaaa(name)])
  const failed = answers.find(isFailedAnswer)
  if (failed !== undefined) return result.unanswered(failed, 'address', name)
  return answers.flatMap((answer) => (answer.kind === 'ok' ? answer.records : []))
}
