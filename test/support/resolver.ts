/** @module The service's own resolver, which asks a DNS server of the test. */

import { randomBelow } from '#platform/ids.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type ResolverOptions, StubResolver } from '#protocols/dns/resolver.ts'
import type { DnsServer } from './dns-server.ts'

export const createResolver = (
  { address }: Pick<DnsServer, 'address'>,
  options: Partial<ResolverOptions> = {},
): StubResolver =>
  new StubResolver({ servers: [address], clock: systemClock, randomId: () => randomBelow(65_536), ...options })
