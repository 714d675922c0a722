/**
 * @module Runs the scan Worker. Each scan starts its own Worker and ends it: scans are rare, and ending the Worker
 * frees its memory.
 */
import { askWorker } from '#platform/process/workers.ts'
import type { ScanRequest } from './scan-worker.ts'

/** Returns the candidates to which no row refers. Throws when the scan fails. */
export const scanForUnreferenced = (request: ScanRequest): Promise<Float64Array> =>
  askWorker<Float64Array>('scan', request)
