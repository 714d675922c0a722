/** @module The delivery Workers for the scheduler: divides connections and attempts among them, replaces dead ones. */

import type { LaneClass } from '#features/sending/queue/lanes.ts'
import type { Log } from '#platform/log/log.ts'
import { startWorker } from '#platform/process/workers.ts'
import { collectPerTick } from '#platform/queue/collect-per-tick.ts'
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { PreparedJob } from '../message/job.ts'
import type { ConnectionLimits, FromWorker, ToWorker, WorkerSettings } from '../protocol.ts'
import { computeBulkLimit } from '../providers/slot-pool.ts'

export type TotalLimits = Omit<ConnectionLimits, 'bulkConnections'>

interface SharedKey {
  limits: TotalLimits
  /** Attempts in flight, by Worker. */
  readonly attempts: number[]
  inFlight: number
}

export class WorkerShares {
  readonly #count: number
  readonly #keys = new Map<string, SharedKey>()

  constructor(count: number) {
    this.#count = count
  }

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

export interface WorkerPoolOptions {
  readonly count: number
  readonly settings: WorkerSettings
  readonly clock: Clock
  readonly log: Log
  /** Called with the messages that a Worker sent in one tick. */
  readonly onMessages: (messages: readonly FromWorker[]) => void
  /** All attempts of this Worker are lost. Messages posted to it from now on go to its replacement. */
  readonly onDeath: (worker: number) => void
}

const RESTART_DELAY_MS = seconds(1)

export type WorkerPool = ReturnType<typeof createWorkerPool>

export function createWorkerPool(options: WorkerPoolOptions) {
  let isTerminated = false
  const shares = new WorkerShares(options.count)
  /** Each sends to a Worker; that of a dead one keeps the messages for its replacement. */
  const sendTo: ((message: ToWorker) => void)[] = []
  const workers: Worker[] = []
  /** Ids of the DKIM keys that each Worker has. */
  const keysSent: Set<string>[] = []
  const post = (index: number, message: ToWorker): void => sendTo[index]?.(message)

  /** @param unsent messages to its predecessor */
  const launchWorker = (index: number, unsent: readonly ToWorker[] = []) => {
    const worker = startWorker('delivery')
    let isDead = false
    workers[index] = worker
    sendTo[index] = collectPerTick<ToWorker>(setImmediate, (messages) => {
      // The attempts of a dead Worker are lost, also those that it was to get.
      if (!isDead && !isTerminated) worker.postMessage(JSON.stringify(messages))
    })
    worker.onmessage = ({ data }: MessageEvent<string>) => {
      if (!isDead) options.onMessages(JSON.parse(data) as FromWorker[])
    }
    const handleDeath = (reason: string) => {
      if (isDead || isTerminated) return
      isDead = true
      options.log.error({ worker: index, reason }, 'delivery worker died')
      const kept: ToWorker[] = []
      sendTo[index] = (message) => void kept.push(message)
      keysSent[index] = new Set()
      worker.terminate()
      options.onDeath(index)
      options.clock.after(RESTART_DELAY_MS, () => {
        if (!isTerminated) launchWorker(index, kept)
      })
    }
    worker.onerror = (event) => handleDeath(event.message)
    worker.addEventListener('close', () => handleDeath('closed'))
    post(index, { type: 'settings', settings: options.settings })
    for (const message of unsent) post(index, message)
  }
  for (let index = 0; index < options.count; index++) {
    keysSent[index] = new Set()
    launchWorker(index)
  }

  const update = (limits: TotalLimits): void => {
    for (const [index, changed] of shares.update(limits)) post(index, { type: 'limits', limits: changed })
  }
  return {
    /** As `WorkerShares`; the attempt counts there until `leave`. */
    assign(limits: TotalLimits, isBulk: boolean, sharedBody?: number): number {
      // Workers that have messages of the same key learn a changed limit before they end one of them.
      update(limits)
      return shares.assign(limits.key, isBulk, sharedBody)
    },
    leave: (index: number, { key }: TotalLimits): void => shares.leave(key, index),
    /** Changes limits whose attempts are in flight; with 0 connections, attempts that have none return to the queue. */
    setLimits(limits: TotalLimits): void {
      if (shares.has(limits.key)) update(limits)
    },
    post,
    /** Starts a job, after sending the keys that the Worker does not have yet. */
    start(
      index: number,
      { job, keys }: PreparedJob,
      { limits, ...as }: { readonly owner: number; readonly laneClass: LaneClass; readonly limits: TotalLimits },
    ): void {
      for (const key of keys) {
        if (!keysSent[index]?.has(key.id)) post(index, { type: 'key', ...key })
        keysSent[index]?.add(key.id)
      }
      post(index, { type: 'start', job, ...as, limits: shares.limitsOf(index, limits) })
    },
    postAll(message: ToWorker): void {
      for (const index of workers.keys()) post(index, message)
    },
    terminate(): void {
      isTerminated = true
      for (const worker of workers) worker.terminate()
    },
  }
}
