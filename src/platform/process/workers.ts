/** @module Starts the process's Workers, from the sources and from the compiled executable alike. Main thread only. */

import { startWithDescriptors } from './descriptors.ts'
import type { WorkerAnswer } from './worker-answer.ts'

/** Worker name -> entry point below `src`. `scripts/build.ts` compiles exactly these, and `PRELOAD_ENTRY`. */
export const workerEntries = {
  backup: 'app/backup/backup-worker.ts',
  checkpoint: 'platform/db/checkpoint-worker.ts',
  delivery: 'features/sending/delivery/worker/worker.ts',
  heartbeat: 'app/cluster/heartbeat-worker.ts',
  inbound: 'features/receiving/inbound/listener/worker.ts',
  measure: 'features/lifecycle/retention/measure-worker.ts',
  parse: 'features/receiving/inbound/process/parse-worker.ts',
  render: 'platform/template/render-worker.ts',
  scan: 'features/core/content-gc/scan-worker.ts',
  snapshot: 'app/cluster/snapshot-worker.ts',
} as const

/** Runs first in every Worker. */
export const PRELOAD_ENTRY = 'platform/process/preload-worker.ts'

export type WorkerName = keyof typeof workerEntries

/** In the executable, the main module contains this module; the Workers are beside it, at their paths below `src`. */
const sourceFolder = Bun.isStandaloneExecutable ? './' : '../../'

const toUrl = (entry: string): string => new URL(`${sourceFolder}${entry}`, import.meta.url).href

export const startWorker = (name: WorkerName): Worker =>
  startWithDescriptors((workerData) => {
    // The types lack `workerData`, which Bun has from node:worker_threads.
    const options = { name, preload: toUrl(PRELOAD_ENTRY), smol: true, workerData }
    return new Worker(toUrl(workerEntries[name]), options)
  })

/** Starts a Worker for one request, and ends it, which frees its memory. Rejects if it throws, dies or is aborted. */
export async function askWorker<Answer>(name: WorkerName, request: unknown, signal?: AbortSignal): Promise<Answer> {
  signal?.throwIfAborted()
  const worker = startWorker(name)
  return new Promise<Answer>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<WorkerAnswer<Answer>>) =>
      'error' in data ? reject(new Error(data.error)) : resolve(data.answer)
    worker.onerror = (event) => reject(new Error(event.message))
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
    worker.postMessage(request)
  }).finally(() => worker.terminate())
}
