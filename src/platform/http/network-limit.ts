/**
 * @module A rate for what remote clients do, by the network that they come from: an IPv4 address or a /64, and with larger limits the /56 and /48 that one
 * customer may have as well, so that 65,536 networks of one customer do not have 65,536 times the rate. In memory only.
 */
import type { Clock } from '../clock.ts'
import { networksOf } from '../network.ts'
import { createRateLimiter, type Rate, type RateDecision } from './rate-limit.ts'

/** How many times the rate of a /64 its /56 and /48 have: providers also give these to many customers together. */
const FACTORS = [1, 4, 16] as const

export interface NetworkLimiter {
  /**
   * Takes one token of each network that an address is in; of a refusal those larger than the one that refused take none.
   * @param scope in which the networks are counted, apart from others, such as an account
   */
  take(address: string, scope?: number): RateDecision
  /** Takes tokens of each network that an address is in for what has happened already; `take` refuses until they have come back. */
  charge(address: string, count: number): void
}

export function createNetworkLimiter(
  clock: Pick<Clock, 'monotonicMs'>,
  { burst, ratePerSecond }: Rate,
  maxKeys?: number,
): NetworkLimiter {
  // Each size has buckets of its own: a flood of small networks evicts no larger one.
  const sizes = FACTORS.map((factor) => ({
    limiter: createRateLimiter(clock, maxKeys),
    rate: { burst: burst * factor, ratePerSecond: ratePerSecond * factor },
  }))
  return {
    take(address, scope) {
      const networks = networksOf(address)
      for (const [index, { limiter, rate }] of sizes.entries()) {
        const network = networks[index]
        if (network === undefined) break
        const decision = limiter.take(scope === undefined ? network : `${network} ${scope}`, 1, rate)
        if (!decision.ok) return decision
      }
      return { ok: true }
    },
    charge(address, count) {
      const networks = networksOf(address)
      for (const [index, { limiter, rate }] of sizes.entries()) {
        const network = networks[index]
        if (network !== undefined) limiter.charge(network, count, rate)
      }
    },
  }
}
