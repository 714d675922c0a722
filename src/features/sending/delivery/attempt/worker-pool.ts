/**
 * @module The delivery Workers as the scheduler sees them: divides the connections of a site and its attempts among
 * them, and reports and replaces dead Workers.
 */

import type { LaneClass } from '#features/sending/queue/lanes.ts'
import type { Log } from '#platform/log/log.ts'
import { startWorker } from '#platform/process/workers.ts'
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { PreparedJob } from '../message/job.ts'
import type { FromWorker, ToWorker, WorkerSettings } from '../model/protocol.ts'
import { Outbox } from '../worker/outbox.ts'
import { type TotalLimits, WorkerShares } from './worker-shares.ts'

export interface WorkerPool {
  /**
   * Chooses a Worker for an attempt: of those that have a share of the connections, the one with the fewest attempts
   * for its share. The attempt counts there until `leave`.
   * @param sharedBody see `WorkerShares`
   */
  assign(limits: TotalLimits, isBulk: boolean, sharedBody?: number): number
  leave(worker: number, limits: TotalLimits): void
  /** Changes limits whose attempts are in flight; with 0 connections, attempts that have none return to the queue. */
  setLimits(limits: TotalLimits): void
  post(worker: number, message: ToWorker): void
  /** Starts a job, after sending the keys that the Worker does not have yet. */
  start(
    worker: number,
    prepared: PreparedJob,
    as: { readonly owner: number; readonly laneClass: LaneClass; readonly limits: TotalLimits },
  ): void
  postAll(message: ToWorker): void
  terminate(): void
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

export function createWorkerPool(options: WorkerPoolOptions): WorkerPool {
  let isTerminated = false
  const shares = new WorkerShares(options.count)
  /** Messages to each living Worker. */
  const outboxes: (Outbox<ToWorker> | undefined)[] = []
  const workers: Worker[] = []
  /** Ids of the DKIM keys that each Worker has. */
  const keysSent: Set<string>[] = []
  /** Messages to a dead Worker, for its replacement. */
  const unsent: ToWorker[][] = []
  const post = (index: number, message: ToWorker): void => {
    const outbox = outboxes[index]
    if (outbox) outbox.push(message)
    else unsent[index]?.push(message)
  }

  const launchWorker = (index: number) => {
    const worker = startWorker('delivery')
    let isDead = false
    workers[index] = worker
    outboxes[index] = new Outbox((text) => {
      // The attempts of a dead Worker are lost, also those that it was to get.
      if (!isDead && !isTerminated) worker.postMessage(text)
    })
    worker.onmessage = ({ data }: MessageEvent<string>) => {
      if (!isDead) options.onMessages(JSON.parse(data) as FromWorker[])
    }
    const handleDeath = (reason: string) => {
      if (isDead || isTerminated) return
      isDead = true
      options.log.error({ worker: index, reason }, 'delivery worker died')
      outboxes[index] = undefined
      keysSent[index] = new Set()
      unsent[index] = []
      worker.terminate()
      options.onDeath(index)
      options.clock.after(RESTART_DELAY_MS, () => {
        if (!isTerminated) launchWorker(index)
      })
    }
    worker.onerror = (event) => handleDeath(event.message)
    worker.addEventListener('close', () => handleDeath('closed'))
    post(index, { type: 'settings', settings: options.settings })
    for (const message of unsent[index]?.splice(0) ?? []) post(index, message)
  }
  for (let index = 0; index < options.count; index++) {
    keysSent[index] = new Set()
    launchWorker(index)
  }

  return {
    assign(limits, isBulk, sharedBody) {
      // Workers that have messages of the same key learn a changed limit before they end one of them.
      for (const [index, changed] of shares.update(limits)) post(index, { type: 'limits', limits: changed })
      return shares.assign(limits.key, isBulk, sharedBody)
    },
    leave: (index, { key }) => shares.leave(key, index),
    setLimits(limits) {
      if (!shares.has(limits.key)) return
      for (const [index, changed] of shares.update(limits)) post(index, { type: 'limits', limits: changed })
    },
    post,
    start(index, { job, keys }, { limits, ...as }) {
      for (const key of keys) {
        if (!keysSent[index]?.has(key.id)) post(index, { type: 'key', ...key })
        keysSent[index]?.add(key.id)
      }
      post(index, { type: 'start', job, ...as, limits: shares.limitsOf(index, limits) })
    },
    postAll(message) {
      for (const index of workers.keys()) post(index, message)
    },
    terminate() {
      isTerminated = true
      for (const worker of workers) worker.terminate()
    },
  }
}
