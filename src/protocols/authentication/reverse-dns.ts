/**
 * @module Checks forward-confirmed reverse DNS (RFC 8601 §3): resolves the names of the client's address and finds one
 * that resolves back to it.
 */
import { isIPv4 } from 'node:net'
import { parseIpv6Groups } from '../dns/special-addresses.ts'
import { type LimitedDns, readErrorCode } from './limited-dns.ts'
import type { Verdict } from './result.ts'

export interface ReverseDns {
  readonly result: Verdict
  /** The first name that resolves back to the address, in lower case; null when no name does. */
  readonly name: string | null
}

/** Maximum number of names to resolve; RFC 7208 §4.6.4 sets the same limit for `ptr`. */
const MAX_NAMES = 10
/** A PTR record can hold anything; only valid host names are queried and shown. */
const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})+$/

/**
 * `pass`: a name of the address resolves back to it. `fail`: no name does. `permerror`: the address has no valid name.
 * `temperror`: a DNS failure prevented the check. Never throws.
 *
 * @param ip IPv4 or IPv6 address, without a zone and not IPv4-mapped
 */
export async function checkReverseDns({ ask }: LimitedDns, ip: string): Promise<ReverseDns> {
  const type = isIPv4(ip) ? 'A' : 'AAAA'
  const expected = toComparable(ip)
  const names = await lookUpTexts(ask, ip, 'PTR')
  if (names === undefined) return { result: 'temperror', name: null }
  const hosts = [...new Set(names.map((name) => name.toLowerCase().replace(/\.$/, '')))].filter((name) =>
    HOST_NAME.test(name),
  )
  if (hosts.length === 0) return { result: 'permerror', name: null }
  const found = await Promise.all(
    hosts.slice(0, MAX_NAMES).map(async (name) => ({ name, addresses: await lookUpTexts(ask, name, type) })),
  )
  const confirmed = found.find(({ addresses }) => addresses?.some((address) => toComparable(address) === expected))
  if (confirmed !== undefined) return { result: 'pass', name: confirmed.name }
  return { result: found.some(({ addresses }) => addresses === undefined) ? 'temperror' : 'fail', name: null }
}

/** Empty: there is no such record. Undefined: the lookup failed. */
async function lookUpTexts(ask: LimitedDns['ask'], name: string, type: string): Promise<string[] | undefined> {
  try {
    return (await ask(name, type)).flat()
  } catch (error) {
    return readErrorCode(error) === 'ENODATA' || readErrorCode(error) === 'ENOTFOUND' ? [] : undefined
  }
}

/** Returns a spelling of an address that is the same for equal addresses. */
const toComparable = (ip: string): string => (ip.includes(':') ? parseIpv6Groups(ip).join(':') : ip)
