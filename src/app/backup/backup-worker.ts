/** @module Worker that writes a backup. Only `run.ts` communicates with it. Changes nothing in the data directory. */
import { systemClock } from '#platform/time/clock.ts'
import { BackupError } from './errors.ts'
import { type BackupJob, type BackupReport, runJob } from './job.ts'

declare const self: Worker

export type BackupMessage =
  | { readonly kind: 'done'; readonly report: BackupReport }
  | { readonly kind: 'failed'; readonly message: string; readonly isExplained: boolean }

const post = (message: BackupMessage): void => self.postMessage(message)

self.onmessage = async ({ data }: MessageEvent<BackupJob>) => {
  try {
    post({ kind: 'done', report: await runJob(data, systemClock) })
  } catch (error) {
    const message = error instanceof Error ? (error instanceof BackupError ? error.message : error.stack) : undefined
    post({ kind: 'failed', message: message ?? String(error), isExplained: error instanceof BackupError })
  }
}
