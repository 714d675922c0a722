/**
 * @module Remembers for a while which addresses did not answer and which broke TLS, so that this costs one timeout and
 * not one for each connection. An address that did not answer is dialled after all others; it is never left out,
 * because it may be the only one that works. Main thread; kept in memory only, and bounded.
 */
import { isIPv6 } from 'node:net'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import type { Clock, Millis } from '#platform/time/clock.ts'
import { hours, minutes } from '#platform/units.ts'
import type { AddressFailure, Route } from '../model/protocol.ts'

/** How long an address that did not answer is dialled last: doubles with each failure in a row. */
const MIN_SILENT_MS = minutes(5)
const MAX_MEMORY_MS = hours(1)
/** How long TLS is not tried with an address that broke a handshake. */
const BROKEN_TLS_MS = hours(1)
/**
 * So many IPv6 addresses in a row that do not answer mean that our IPv6 connection does not work. Then all IPv6
 * addresses are dialled last.
 */
const MAX_SILENT_IPV6 = 3
const IPV6_MS = minutes(30)
/** Remembered addresses of each kind; the oldest is evicted. */
const MAX_ADDRESSES = 10_000

interface SilentAddress {
  readonly until: Millis
  readonly failures: number
}

export class FailedAddresses {
  readonly #clock: Pick<Clock, 'now'>
  readonly #silent = new Map<string, SilentAddress>()
  /** Until when TLS is not tried. */
  readonly #brokenTls = new Map<string, Millis>()
  /** IPv6 addresses that did not answer since the last IPv6 session. */
  readonly #silentIpv6 = new Set<string>()
  #ipv6Until: Millis = 0

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  record({ address, kind }: AddressFailure): void {
    const now = this.#clock.now()
    if (kind === 'tls') {
      store(this.#brokenTls, address, now + BROKEN_TLS_MS)
      return
    }
    const earlier = this.#silent.get(address)
    // Attempts that began before the failure was known fail as well, and count once.
    if (earlier && this.#isAhead(earlier.until)) return
    const failures = (earlier?.failures ?? 0) + 1
    const delayMs = backoffDelayMs(failures, { minMs: MIN_SILENT_MS, maxMs: MAX_MEMORY_MS })
    store(this.#silent, address, { until: now + delayMs, failures })
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

  /** The route with silent addresses last, and with the addresses at which TLS is not tried. */
  apply(route: Route): Route {
    if (this.#silent.size === 0 && this.#brokenTls.size === 0) return route
    const addresses = route.hosts.flatMap((host) => host.addresses)
    const last = new Set(addresses.filter((address) => this.#isSilent(address)))
    const plaintext = addresses.filter((address) => this.#isAhead(this.#brokenTls.get(address) ?? 0))
    const pick = (isLast: boolean) =>
      route.hosts.flatMap((host) => {
        const picked = host.addresses.filter((address) => last.has(address) === isLast)
        return picked.length > 0 ? [{ ...host, addresses: picked }] : []
      })
    return {
      ...route,
      ...(last.size > 0 && { hosts: [...pick(false), ...pick(true)] }),
      ...(plaintext.length > 0 && route.tls === 'opportunistic' && { plaintextAddresses: plaintext }),
    }
  }

  #isSilent(address: string): boolean {
    if (isIPv6(address) && this.#isAhead(this.#ipv6Until)) return true
    return this.#isAhead(this.#silent.get(address)?.until ?? 0)
  }

  /** Whether a time is still to come. One that is too far away was computed under a fast clock, and has passed. */
  #isAhead(until: Millis): boolean {
    const leftMs = until - this.#clock.now()
    return leftMs > 0 && leftMs <= MAX_MEMORY_MS
  }
}

function store<T>(map: Map<string, T>, address: string, value: T): void {
  // Deleted first, so that the address becomes the newest.
  map.delete(address)
  map.set(address, value)
  const [oldest] = map.size > MAX_ADDRESSES ? map.keys() : []
  if (oldest !== undefined) map.delete(oldest)
}
