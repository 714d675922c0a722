/** @module Token buckets, one per key (an account, an address, a network). In memory only: a restart fills them. */
import { networksOf } from '#platform/net/network.ts'
import type { Clock } from '#platform/time/clock.ts'
import { storeNewest } from '../bounded-map.ts'
import { tooManyRequests } from '../errors.ts'

export interface Rate {
  readonly ratePerSecond: number
  /** Tokens in a full bucket. */
  readonly burst: number
}

type Refusal = { readonly ok: false; readonly retryAfterSeconds: number }
export type RateDecision = { readonly ok: true } | Refusal

/** Throws a 429 for a refusal. */
export function requireTaken(decision: RateDecision, message: string, code = 'rate_limited'): void {
  if (!decision.ok) throw tooManyRequests(code, message, decision.retryAfterSeconds)
}

export type RateLimiter = ReturnType<typeof createRateLimiter>

interface Bucket {
  tokens: number
  atMs: number
  rate: Rate
}

/** Keeps at most `maxKeys` buckets: those that were used last. */
export function createRateLimiter(clock: Pick<Clock, 'monotonicMs'>, maxKeys = 100_000) {
  // A Map keeps insertion order, and a used bucket moves to the end, so the first bucket is the least recently used.
  const buckets = new Map<string, Bucket>()

  /** Returns the up-to-date bucket of a key. */
  const bucketOf = (key: string, rate: Rate): Bucket => {
    const nowMs = clock.monotonicMs()
    const bucket = buckets.get(key) ?? { tokens: rate.burst, atMs: nowMs, rate }
    bucket.tokens = tokensAt(bucket, rate, nowMs)
    bucket.atMs = nowMs
    bucket.rate = rate
    storeNewest(buckets, key, bucket, maxKeys)
    return bucket
  }

  return {
    /**
     * Takes `count` tokens, all or none. A count above the burst is allowed when the bucket is full; the bucket then owes
     * the rest. `retryAfterSeconds` is a whole number of at least 1; `remaining` is the number of whole tokens left.
     */
    take(key: string, count: number, rate: Rate): { readonly ok: true; readonly remaining: number } | Refusal {
      const bucket = bucketOf(key, rate)
      const needed = Math.min(count, rate.burst)
      if (bucket.tokens >= needed) {
        bucket.tokens -= count
        return { ok: true, remaining: Math.max(0, Math.floor(bucket.tokens)) }
      }
      return { ok: false, retryAfterSeconds: Math.max(1, Math.ceil((needed - bucket.tokens) / rate.ratePerSecond)) }
    },
    /** Takes `count` tokens for something that has already happened; a bucket with fewer tokens owes the rest. */
    charge(key: string, count: number, rate: Rate): void {
      bucketOf(key, rate).tokens -= count
    },
    get size(): number {
      return buckets.size
    },
  }
}

const tokensAt = (bucket: Bucket, rate: Rate, nowMs: number): number =>
  Math.min(rate.burst, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) / 1000) * rate.ratePerSecond)

/**
 * Factors for the rates of a /64, its /56 and its /48. The larger networks get a multiple of the rate, because some
 * providers put many customers into one.
 */
const FACTORS = [1, 4, 16] as const

export type NetworkLimiter = ReturnType<typeof createNetworkLimiter>

/**
 * Limits the rate of remote clients by network: an IPv4 address or a /64. The /56 and /48 that one customer may have are
 * limited too, with larger limits, so that a customer with 65,536 networks does not get 65,536 times the rate.
 */
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
