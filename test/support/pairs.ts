/** @module A pair of provider and outgoing address without a service, for tests of slots, rates and suspensions. */
import { type Instant, Pair } from '#features/sending/delivery/providers/pair.ts'
import type { ProviderPolicy } from '#features/sending/delivery/providers/registry.ts'
import { accountOfLane } from '#features/sending/queue/lanes.ts'
import type { Clock } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'

const POLICY: ProviderPolicy = {
  name: 'test',
  mx: [],
  connections: 1000,
  messagesPerConnection: 100,
  connectionAgeMs: minutes(5),
  idleMs: seconds(5),
  perSecond: 0,
  perMinute: 0,
  tls: 'opportunistic',
  route: 'direct',
  source: 'test',
}

export const instantOf = (clock: Clock): Instant => ({ now: clock.now(), monotonicMs: clock.monotonicMs() })

/** A pair without limits except the given ones. */
export const createPair = (clock: Clock, policy: Partial<ProviderPolicy> = {}, ownerOf = accountOfLane): Pair =>
  new Pair({ name: 'test', isNamed: true, policy: { ...POLICY, ...policy } }, '', ownerOf, instantOf(clock))
