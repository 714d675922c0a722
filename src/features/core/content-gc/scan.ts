/** @module Asks the scan Worker. It is started for a scan and ended with it: scans are rare, and their memory goes with the Worker. */
import { startWorker } from '#platform/workers.ts'
import type { ScanRequest, ScanResponse } from './scan-worker.ts'

/** Gives the candidates that no row holds. Throws when the scan could not be made. */
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
