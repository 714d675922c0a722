/** @module How many connections, messages and octets one address may have: counted in memory, an IPv6 address by its /64, because that is what one customer gets. */
import type { Clock } from '#platform/clock.ts'
import { hours, minutes } from '#platform/units.ts'

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
