/**
 * @module Runs the scan Worker. Each scan starts its own Worker and ends it: scans are rare, and ending the Worker
 * frees its memory.
 */
import { startWorker } from '#platform/workers.ts'
import type { ScanRequest, ScanResponse } from './scan-worker.ts'

/** Returns the candidates to which no row refers. Throws when the scan fails. */
export function scanForUnreferenced(request: Omit<ScanRequest, 'id'>): Promise<Float64Array> {
  const worker = startWorker('scan')
  return new Promise<Float64Array>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<ScanResponse>) => {
      if (data.unreferenced) resolve(data.unreferenced)
      else reject(new Error(`the scan of references failed: ${data.error ?? 'no answer'}`))
    }
    worker.onerror = (event) => reject(new Error(`the scan of references failed: ${event.message}`))
    worker.postMessage({ ...request, id: 0 } satisfies ScanRequest)
  }).finally(() => worker.terminate())
}
