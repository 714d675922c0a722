/**
 * @module The delivery Workers as the scheduler sees them: pins each site to one Worker, and reports and replaces dead
 * Workers.
 */

import type { Clock } from '#platform/clock.ts'
import type { Log } from '#platform/log.ts'
import { seconds } from '#platform/units.ts'
import { startWorker } from '#platform/workers.ts'
import type { PreparedJob } from './job.ts'
import type { FromWorker, ToWorker, WorkerSettings } from './protocol.ts'

export interface WorkerPool {
  /** Index of the Worker that owns a site. */
  workerOf(site: string): number
  post(worker: number, message: ToWorker): void
  /** Starts a job, after sending the keys that the Worker does not have yet. */
  start(worker: number, prepared: PreparedJob, as: { readonly owner: number; readonly isBulk: boolean }): void
  postAll(message: ToWorker): void
  terminate(): void
}

export interface WorkerPoolOptions {
  readonly count: number
  readonly settings: WorkerSettings
  readonly clock: Clock
  readonly log: Log
  readonly onMessage: (worker: number, message: FromWorker) => void
  /** All attempts of this Worker are lost. Messages posted to it from now on go to its replacement. */
  readonly onDeath: (worker: number) => void
}

const RESTART_DELAY_MS = seconds(1)

export function createWorkerPool(options: WorkerPoolOptions): WorkerPool {
  let isTerminated = false
  const workers: (Worker | undefined)[] = []
  /** Ids of the DKIM keys that each Worker has. */
  const keysSent: Set<string>[] = []
  /** Messages to a dead Worker, for its replacement. */
  const unsent: ToWorker[][] = []
  const post = (index: number, message: ToWorker): void => {
    const worker = workers[index]
    if (worker) worker.postMessage(JSON.stringify(message))
    else unsent[index]?.push(message)
  }

  const launchWorker = (index: number) => {
    const worker = startWorker('delivery')
    workers[index] = worker
    let isDead = false
    worker.onmessage = ({ data }: MessageEvent<string>) => {
      if (!isDead) options.onMessage(index, JSON.parse(data) as FromWorker)
    }
    const handleDeath = (reason: string) => {
      if (isDead || isTerminated) return
      isDead = true
      options.log.error({ worker: index, reason }, 'delivery worker died')
      workers[index] = undefined
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
    workerOf: (site) => Number(Bun.hash(site) % BigInt(options.count)),
    post,
    start(index, { job, keys }, as) {
      for (const key of keys) {
        if (!keysSent[index]?.has(key.id)) post(index, { type: 'key', ...key })
        keysSent[index]?.add(key.id)
      }
      post(index, { type: 'start', job, ...as })
    },
    postAll(message) {
      for (const index of workers.keys()) post(index, message)
    },
    terminate() {
      isTerminated = true
      for (const worker of workers) worker?.terminate()
    },
  }
}
