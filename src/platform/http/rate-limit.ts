/** @module Token buckets, one per key (an account, an address). In memory only: a restart fills them. */
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
