/** @module How many messages and octets one address may hand in: counted in memory, an IPv6 address by its /64, because that is what one customer gets. */
import type { Clock } from '#platform/clock.ts'
import { hours, minutes } from '#platform/units.ts'

export interface MessageRate {
  /** Whether one more message is within the rate; it is counted if so. */
  take(network: string): boolean
}

/** `perMinute` at once, and as many again within each minute. */
export function createMessageRate(perMinute: number, clock: Pick<Clock, 'monotonicMs'>): MessageRate {
  const buckets = createBuckets({ most: perMinute, withinMs: minutes(1) }, clock)
  return {
    take(network) {
      const isWithin = buckets.left(network) >= 1
      buckets.take(network, isWithin ? 1 : 0)
      return isWithin
    },
  }
}

export interface OctetRate {
  hasLeft(network: string): boolean
  /** Counts octets that have come, also those beyond the rate. */
  spend(network: string, count: number): void
}

/** `perHour` at once, and as many again within each hour. */
export function createOctetRate(perHour: number, clock: Pick<Clock, 'monotonicMs'>): OctetRate {
  const buckets = createBuckets({ most: perHour, withinMs: hours(1) }, clock)
  return { hasLeft: (network) => buckets.left(network) > 0, spend: buckets.take }
}

/** Networks remembered at most; a stranger with more of them than this gets more than the rate, which the number of connections bounds. */
const MOST_REMEMBERED = 50_000

interface Bucket {
  tokens: number
  filledAtMs: number
}

/** A token bucket a network; below zero what was taken beyond it has to come in first. */
function createBuckets(
  { most, withinMs }: { readonly most: number; readonly withinMs: number },
  clock: Pick<Clock, 'monotonicMs'>,
): { left(network: string): number; take(network: string, count: number): void } {
  const buckets = new Map<string, Bucket>()
  const tokensAt = (bucket: Bucket, nowMs: number): number =>
    Math.min(most, bucket.tokens + ((nowMs - bucket.filledAtMs) * most) / withinMs)

  /** A full bucket says the same as none. */
  const forget = (nowMs: number): void => {
    for (const [network, bucket] of buckets) if (tokensAt(bucket, nowMs) >= most) buckets.delete(network)
    for (const network of buckets.keys()) {
      if (buckets.size < MOST_REMEMBERED / 2) break
      buckets.delete(network)
    }
  }

  return {
    left(network) {
      const bucket = buckets.get(network)
      return bucket ? tokensAt(bucket, clock.monotonicMs()) : most
    },
    take(network, count) {
      const nowMs = clock.monotonicMs()
      const bucket = buckets.get(network)
      if (bucket) {
        bucket.tokens = tokensAt(bucket, nowMs) - count
        bucket.filledAtMs = nowMs
        return
      }
      if (buckets.size >= MOST_REMEMBERED) forget(nowMs)
      buckets.set(network, { tokens: most - count, filledAtMs: nowMs })
    },
  }
}
