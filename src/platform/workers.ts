/** @module Starts the process's Workers, from the sources and from the compiled executable alike. Main thread only. */

/** Worker name -> entry point below `src`. `scripts/build.ts` compiles exactly these. */
export const workerEntries = {
  backup: 'app/backup/backup-worker.ts',
  checkpoint: 'platform/db/checkpoint-worker.ts',
  delivery: 'features/sending/delivery/worker.ts',
  disk: 'app/operator/disk-worker.ts',
  inbound: 'features/receiving/inbound/listener-worker.ts',
  measure: 'features/lifecycle/retention/measure-worker.ts',
  parse: 'features/receiving/inbound/parse-worker.ts',
  render: 'platform/template/render-worker.ts',
  scan: 'features/core/content-gc/scan-worker.ts',
} as const

export type WorkerName = keyof typeof workerEntries

/** In the executable, the main module contains this module; the Workers are beside it, at their paths below `src`. */
const sourceFolder = Bun.isStandaloneExecutable ? './' : '../'

export function startWorker(name: WorkerName): Worker {
  return new Worker(new URL(`${sourceFolder}${workerEntries[name]}`, import.meta.url).href, { name, smol: true })
}
