/**
 * @module Checks that a tracking host leads to us: by a CNAME, directly or through other names, or by having the same
 * addresses, which providers that flatten CNAMEs publish instead. Stores nothing.
 */
import { type Answer, isFailedAnswer, type Resolver } from '#protocols/dns/resolver.ts'
import {
  type Check,
  findAbsenceHint,
  hasRecord,
  isCheck,
  missing,
  quoteValue,
  toRecordsOrCheck,
  unanswered,
  verified,
  wrong,
} from './check-result.ts'
import { findRegistrableDomain } from './name.ts'

/** Resolvers give up on longer chains, which serve no purpose anyway. */
const MAX_CHAIN_LENGTH = 8

/**
 * Checks whether a tracking host leads to us, and if not, what its owner must change; `unknown` when DNS did not
 * respond. Both names are in lower case, the host in A-labels.
 */
export async function checkTracking(
  resolver: Resolver,
  { host, target }: Readonly<Record<'host' | 'target', string>>,
): Promise<Check> {
  const advice = `Publish a CNAME record at ${host} with the value ${target}`
  const chain = await followCnames(resolver, host, target)
  if (isCheck(chain)) return chain
  const [first] = chain
  if (first === target) return verified(`${host} is an alias (CNAME) of ${target}.`)
  if (chain.at(-1) === target) return verified(`${host} is an alias (CNAME) of ${chain.join(', an alias of ')}.`)

  const ourAddresses = await resolveAddresses(resolver, target)
  const hostAddresses = await resolveAddresses(resolver, host)
  if (isCheck(hostAddresses)) return hostAddresses
  if (hostAddresses.length > 0 && isCheck(ourAddresses)) return ourAddresses
  const isSame =
    !isCheck(ourAddresses) &&
    hostAddresses.length > 0 &&
    hostAddresses.every((address) => ourAddresses.includes(address))
  if (isSame) {
    return verified(
      `${first === undefined ? `There is no CNAME at ${host}` : `${host} is an alias (CNAME) of ${quoteValue(first)}`}, but its addresses are those of ${target}, so it leads to us. If the addresses of ${target} change, those of ${host} must change too.`,
    )
  }
  if (first !== undefined) {
    const isExtended = first.startsWith(`${target}.`)
    return wrong(
      `The CNAME at ${host} points to ${quoteValue(first)} and not to ${target}.`,
      isExtended
        ? `The DNS provider appended the domain to the value: enter ${target}. with a dot at the end.`
        : `Change its value to ${target}`,
    )
  }
  if (hostAddresses.length > 0) {
    return wrong(
      `There is no CNAME at ${host}, and its addresses (${formatAddresses(hostAddresses)}) are not those of ${target}.`,
      'If the DNS provider puts a proxy in front of it, disable the proxy for this name.',
      `Remove the address records. ${advice}`,
    )
  }
  const isOurs = async (name: string) => hasRecord(await resolver.cname(name), (alias) => alias === target)
  const hint = await findAbsenceHint(resolver, findRegistrableDomain(host) ?? host, host, isOurs)
  return missing(`There is no CNAME record at ${host}.`, hint, advice)
}

/** The names to which the CNAMEs from `host` lead, up to `target` or the first name without a CNAME. */
async function followCnames(resolver: Resolver, host: string, target: string): Promise<readonly string[] | Check> {
  const chain: string[] = []
  for (let name = host; chain.length <= MAX_CHAIN_LENGTH; ) {
    const found = toRecordsOrCheck(await resolver.cname(name), 'CNAME record', name)
    if (isCheck(found)) return found
    const [next] = found
    if (next === undefined) return chain
    chain.push(next)
    if (next === target) return chain
    name = next
  }
  return wrong(
    `The CNAME records at ${host} form a loop or a chain that is too long.`,
    `Change the value of the CNAME at ${host} to ${target}`,
  )
}

/** The addresses of a name, IPv4 first; a check result when either query failed. */
async function resolveAddresses(resolver: Resolver, name: string): Promise<readonly string[] | Check> {
  const answers: readonly Answer<string>[] = await Promise.all([resolver.a(name), resolver.aaaa(name)])
  const failed = answers.find(isFailedAnswer)
  if (failed !== undefined) return unanswered(failed, 'address', name)
  return answers.flatMap((answer) => (answer.kind === 'ok' ? answer.records : []))
}

const MAX_SHOWN_ADDRESSES = 4

const formatAddresses = (addresses: readonly string[]): string =>
  `${addresses.slice(0, MAX_SHOWN_ADDRESSES).join(', ')}${addresses.length > MAX_SHOWN_ADDRESSES ? ', ...' : ''}`
