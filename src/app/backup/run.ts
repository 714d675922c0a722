/** @module Runs a backup in a Worker, and holds off the deletion of content while the Worker copies it. */

import { RENEW_INTERVAL_MS } from '#features/core/content-gc/deletion-hold.ts'
import { startWorker } from '#platform/process/workers.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import type { BackupMessage } from './backup-worker.ts'
import { BackupError } from './errors.ts'
import type { BackupJob, BackupReport } from './job.ts'

export interface HoldHandle {
  renew(): unknown
  release(): unknown
}

/**
 * Resolves when the backup is complete. Throws BackupError that says what to do.
 * @param signal aborting it ends the backup; the next one removes what it left
 */
export async function runBackup(
  job: BackupJob,
  hold: HoldHandle,
  clock: Pick<Clock, 'after'>,
  signal?: AbortSignal,
): Promise<BackupReport> {
  signal?.throwIfAborted()
  await hold.renew()
  let timer: Timer | undefined
  const renewLater = (): void => {
    timer = clock.after(RENEW_INTERVAL_MS, () => {
      void hold.renew()
      renewLater()
    })
  }
  renewLater()
  const release = async (): Promise<void> => {
    timer?.cancel()
    await hold.release()
  }
  const worker = startWorker('backup')
  try {
    return await new Promise<BackupReport>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<BackupMessage>) => {
        if (data.kind === 'copied') void release()
        else if (data.kind === 'done') resolve(data.report)
        else reject(data.isExplained ? new BackupError(data.message) : new Error(data.message))
      }
      worker.onerror = (event) => reject(new Error(`the backup Worker died: ${event.message}`))
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      worker.postMessage(job)
    })
  } finally {
    worker.terminate()
    await release()
  }
}
