/** @module How many connections and messages one address may have: counted in memory, an IPv6 address by its /64, because that is what one customer gets. */
import type { Clock } from '#platform/clock.ts'
import { minutes } from '#platform/units.ts'

export interface ConnectionLimit {
  /** Why another connection is refused, or undefined: it is counted, and `leave` must be called when it is gone. */
  enter(network: string): 'all' | 'network' | undefined
  leave(network: string): void
  readonly open: number
}

export function createConnectionLimit(mostInAll: number, mostOfNetwork: number): ConnectionLimit {
  const counts = new Map<string, number>()
  let open = 0
  return {
    enter(network) {
      const count = counts.get(network) ?? 0
      if (count >= mostOfNetwork) return 'network'
      if (open >= mostInAll) return 'all'
      counts.set(network, count + 1)
      open++
      return undefined
    },
    leave(network) {
      const count = counts.get(network) ?? 0
      if (count <= 1) counts.delete(network)
      else counts.set(network, count - 1)
      open--
    },
    get open() {
      return open
    },
  }
}

export interface MessageRate {
  /** Whether one more message is within the rate; it is counted if so. */
  take(network: string): boolean
}

/** Networks remembered at most; a stranger with more of them than this gets more than the rate, which the number of connections bounds. */
const MOST_REMEMBERED = 50_000

interface Bucket {
  tokens: number
  filledAtMs: number
}

/** A token bucket a network: `perMinute` at once, and as many again within each minute. */
export function createMessageRate(perMinute: number, clock: Pick<Clock, 'monotonicMs'>): MessageRate {
  const buckets = new Map<string, Bucket>()
  const tokensAt = (bucket: Bucket, nowMs: number): number =>
    Math.min(perMinute, bucket.tokens + ((nowMs - bucket.filledAtMs) * perMinute) / minutes(1))

  /** A full bucket says the same as none. */
  const forget = (nowMs: number): void => {
    for (const [network, bucket] of buckets) if (tokensAt(bucket, nowMs) >= perMinute) buckets.delete(network)
    for (const network of buckets.keys()) {
      if (buckets.size < MOST_REMEMBERED / 2) break
      buckets.delete(network)
    }
  }

  return {
    take(network) {
      const nowMs = clock.monotonicMs()
      const bucket = buckets.get(network) ?? { tokens: perMinute, filledAtMs: nowMs }
      const tokens = tokensAt(bucket, nowMs)
      bucket.filledAtMs = nowMs
      bucket.tokens = tokens >= 1 ? tokens - 1 : tokens
      if (!buckets.has(network)) {
        if (buckets.size >= MOST_REMEMBERED) forget(nowMs)
        buckets.set(network, bucket)
      }
      return tokens >= 1
    },
  }
}
