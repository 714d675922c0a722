/**
 * @module Starts the process's Workers, from the sources and from the compiled executable alike: there the entry points given to
 * `bun build --compile` lie beside the main module under their paths relative to `src`.
 */

/** Worker name -> entry point below `src`. `scripts/build.ts` compiles exactly these. */
export const workerEntries = {
  checkpoint: 'platform/db/checkpoint-worker.ts',
  delivery: 'features/delivery/worker.ts',
} as const

export type WorkerName = keyof typeof workerEntries

export function startWorker(name: WorkerName): Worker {
  return new Worker(new URL(`../${workerEntries[name]}`, import.meta.url).href, { name, smol: true })
}
