/** @module Runs a backup in a Worker. */
import { startWorker } from '#platform/process/workers.ts'
import type { BackupMessage } from './backup-worker.ts'
import { BackupError } from './errors.ts'
import type { BackupJob, BackupReport } from './job.ts'

/**
 * Resolves when the backup is complete. Throws BackupError that says what to do.
 * @param signal aborting it ends the backup; the next one removes what it left
 */
export async function runBackup(job: BackupJob, signal?: AbortSignal): Promise<BackupReport> {
  signal?.throwIfAborted()
  const worker = startWorker('backup')
  try {
    return await new Promise<BackupReport>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<BackupMessage>) => {
        if (data.kind === 'done') resolve(data.report)
        else reject(data.isExplained ? new BackupError(data.message) : new Error(data.message))
      }
      worker.onerror = (event) => reject(new Error(`the backup Worker died: ${event.message}`))
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      worker.postMessage(job)
    })
  } finally {
    worker.terminate()
  }
}
