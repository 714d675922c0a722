/**
 * @module Divides the connections of each pair of provider and outgoing address among the Workers, and chooses the
 * Worker of each attempt. Posts nothing.
 */

import type { ConnectionLimits } from '../model/protocol.ts'
import { computeBulkLimit } from '../providers/bulk-limit.ts'

/** Limits of connections over all Workers. */
export type TotalLimits = Omit<ConnectionLimits, 'bulkConnections'>

interface SharedKey {
  limits: TotalLimits
  /** Attempts in flight, by Worker. */
  readonly attempts: number[]
  inFlight: number
}

export class WorkerShares {
  readonly #count: number
  /** Keys with attempts in flight. */
  readonly #keys = new Map<string, SharedKey>()

  /** @param count number of Workers */
  constructor(count: number) {
    this.#count = count
  }

  /** Whether attempts with this key are in flight. */
  has(key: string): boolean {
    return this.#keys.has(key)
  }

  /** Stores the limits of a key. Returns the new limits of each Worker that has attempts, if they changed. */
  update(limits: TotalLimits): [worker: number, limits: ConnectionLimits][] {
    const shared = this.#keys.get(limits.key)
    if (!shared) {
      this.#keys.set(limits.key, { limits, attempts: Array.from({ length: this.#count }, () => 0), inFlight: 0 })
      return []
    }
    const hasChanged = JSON.stringify(shared.limits) !== JSON.stringify(limits)
    shared.limits = limits
    if (!hasChanged) return []
    return [...shared.attempts.entries()].map(([worker]) => [worker, this.limitsOf(worker, limits)])
  }

  /**
   * Chooses the Worker with the fewest attempts for its share of the connections, and counts the attempt there.
   * @param sharedBody attempts with the same number get the same Worker, which has their body in memory only once
   */
  assign(key: string, isBulk: boolean, sharedBody?: number): number {
    const shared = this.#keys.get(key)
    if (!shared) throw new Error(`the limits of ${key} are unknown`)
    const candidates = this.#listCandidates(shared, isBulk)
    const leastLoad = Math.min(...candidates.map(({ load }) => load))
    const chosen =
      sharedBody === undefined
        ? candidates.find(({ load }) => load === leastLoad)
        : candidates[sharedBody % candidates.length]
    // While a limit is 0, every Worker returns the message.
    const worker = chosen?.worker ?? this.#homeOf(key)
    shared.attempts[worker] = (shared.attempts[worker] ?? 0) + 1
    shared.inFlight++
    return worker
  }

  /** The Workers that have a share of the connections. */
  #listCandidates({ limits, attempts }: SharedKey, isBulk: boolean): { worker: number; load: number }[] {
    const home = this.#homeOf(limits.key)
    return Array.from({ length: this.#count }, (_, rank) => (home + rank) % this.#count).flatMap((worker) => {
      const { connections, bulkConnections } = this.limitsOf(worker, limits)
      const share = isBulk ? bulkConnections : connections
      return share > 0 ? [{ worker, load: ((attempts[worker] ?? 0) + 1) / share }] : []
    })
  }

  /** Ends an attempt that `assign` counted. */
  leave(key: string, worker: number): void {
    const shared = this.#keys.get(key)
    if (!shared) return
    shared.attempts[worker] = (shared.attempts[worker] ?? 0) - 1
    if (--shared.inFlight === 0) this.#keys.delete(key)
  }

  /** A Worker's part of limits; the parts of all Workers add up to them. */
  limitsOf(worker: number, limits: TotalLimits): ConnectionLimits {
    const rank = (worker - this.#homeOf(limits.key) + this.#count) % this.#count
    return {
      ...limits,
      connections: this.#shareOf(rank, limits.connections),
      bulkConnections: this.#shareOf(rank, Math.min(limits.connections, computeBulkLimit(limits.connections))),
    }
  }

  #shareOf(rank: number, total: number): number {
    return Math.floor(total / this.#count) + (rank < total % this.#count ? 1 : 0)
  }

  /** The Worker of a key's first connections. It differs by key, so that small limits load all Workers alike. */
  #homeOf(key: string): number {
    return Number(Bun.hash(key) % BigInt(this.#count))
  }
}
