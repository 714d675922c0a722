/**
 * @module Worker that makes one backup: writes a folder, sends it to S3, and removes backups beyond the number to keep.
 * Changes nothing in the data directory but its lock.
 */
import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { holdDeletion } from '#features/core/content-gc/deletion-hold.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type BackupRequest, createBackup } from './create-backup.ts'
import { BackupError } from './errors.ts'
import { describeManifest, type Manifest, removeOldBackups, toBackupName } from './manifest.ts'
import { S3Backups, type S3Target } from './s3.ts'

export interface BackupJob extends BackupRequest {
  /** Backups to keep in each place, the new one included; undefined: all. */
  readonly keep?: number | undefined
  readonly s3?: S3Target | undefined
  /** Whether the folder serves only for the upload: the backup in it is deleted afterwards. */
  readonly isStaging?: boolean | undefined
}

/** What was written, as `tassis backup --json` prints it; travels between threads. */
export interface BackupReport extends ReturnType<typeof describeManifest> {
  readonly path: string
  /** Bytes that are not shared with the previous backup. */
  readonly written_bytes: number
  /** Bytes sent to S3; null when none is used. */
  readonly sent_bytes: number | null
  readonly removed: readonly string[]
  readonly duration_ms: number
}

/** `problem`: what the operator must do. */
export type BackupAnswer = { readonly report: BackupReport } | { readonly problem: string }

answerRequest(async (job: BackupJob): Promise<BackupAnswer> => {
  try {
    return { report: await runJob(job) }
  } catch (error) {
    if (error instanceof BackupError) return { problem: error.message }
    throw error
  }
})

/** @throws BackupError that says what to do */
async function runJob(job: BackupJob): Promise<BackupReport> {
  const clock = systemClock
  const startedAtMs = clock.monotonicMs()
  const hold = holdDeletion(job.dataDir, clock)
  const { path, manifest, writtenBytes } = await createBackup(job, clock).finally(() => hold.release())
  // Before the upload: a storage that fails for weeks must not fill this disk.
  const removed = job.keep === undefined ? [] : removeOldBackups(job.folder, job.keep, hostname(), clock.now())
  const uploaded = await upload(job, path, manifest)
  return {
    path: uploaded.path ?? path,
    ...describeManifest(manifest),
    written_bytes: writtenBytes,
    sent_bytes: uploaded.sentBytes,
    removed: [...removed, ...uploaded.removed],
    duration_ms: Math.round(clock.monotonicMs() - startedAtMs),
  }
}

async function upload(
  { s3, keep, isStaging }: BackupJob,
  path: string,
  manifest: Manifest,
): Promise<{ path?: string; sentBytes: number | null; removed: string[] }> {
  if (!s3) return { sentBytes: null, removed: [] }
  const backups = new S3Backups(s3)
  try {
    const name = toBackupName(Date.parse(manifest.taken_at), new Set(await backups.names()))
    const sentBytes = await backups.upload(path, name, manifest)
    const removed = keep === undefined ? [] : await backups.removeOld(keep)
    return { sentBytes, removed: removed.map((old) => `s3:${old}`), ...(isStaging && { path: `s3:${name}` }) }
  } finally {
    if (isStaging) await rm(path, { recursive: true, force: true })
  }
}
