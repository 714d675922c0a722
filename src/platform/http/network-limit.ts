/**
 * @module Limits the rate of remote clients by network: an IPv4 address or a /64. The /56 and /48 that one customer may
 * have are limited too, with larger limits, so that a customer with 65,536 networks does not get 65,536 times the
 * rate. In memory only.
 */

import { networksOf } from '#platform/net/network.ts'
import type { Clock } from '#platform/time/clock.ts'
import { createRateLimiter, type Rate, type RateDecision } from './rate-limit.ts'

/**
 * Factors for the rates of a /64, its /56 and its /48. The larger networks get a multiple of the rate, because some
 * providers put many customers into one.
 */
const FACTORS = [1, 4, 16] as const

export type NetworkLimiter = ReturnType<typeof createNetworkLimiter>

export function createNetworkLimiter(
  clock: Pick<Clock, 'monotonicMs'>,
  { burst, ratePerSecond }: Rate,
  maxKeys?: number,
) {
  // Each network size has its own buckets, so a flood of small networks evicts no larger network.
  const sizes = FACTORS.map((factor) => ({
    limiter: createRateLimiter(clock, maxKeys),
    rate: { burst: burst * factor, ratePerSecond: ratePerSecond * factor },
  }))
  return {
    /**
     * Takes one token from each network of an address, the smallest network first. When a network has no token, the
     * larger networks lose none.
     * @param scope keeps separate counts, for example for each account
     */
    take(address: string, scope?: number): RateDecision {
      const networks = networksOf(address)
      for (const [index, { limiter, rate }] of sizes.entries()) {
        const network = networks[index]
        if (network === undefined) break
        const decision = limiter.take(scope === undefined ? network : `${network} ${scope}`, 1, rate)
        if (!decision.ok) return decision
      }
      return { ok: true }
    },
    /**
     * Takes tokens from each network of an address for something that has already happened; `take` refuses until the
     * tokens have been refilled.
     */
    charge(address: string, count: number): void {
      const networks = networksOf(address)
      for (const [index, { limiter, rate }] of sizes.entries()) {
        const network = networks[index]
        if (network !== undefined) limiter.charge(network, count, rate)
      }
    },
  }
}
