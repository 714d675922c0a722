/** @module What one backup does: writes a folder or an archive, then removes backups beyond the number to keep. */
import { existsSync } from 'node:fs'
import { rm, rmdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import type { Clock } from '#platform/time/clock.ts'
import { packBackup } from './archive.ts'
import { type BackupRequest, createBackup } from './create-backup.ts'
import { BackupError, explainWriteError } from './errors.ts'
import { createFolder } from './files.ts'
import { listNeededKeys, type Manifest } from './manifest.ts'
import { removeOldBackups, toBackupName } from './names.ts'
import { S3Backups, type S3Target } from './s3.ts'

export interface BackupJob extends Omit<BackupRequest, 'folder'> {
  /** Absolute path of the folder that holds backups, or of the archive to be written. */
  readonly target: string
  readonly isArchive: boolean
  /** Backups to keep in each place, the new one included; undefined: all. */
  readonly keep?: number | undefined
  readonly s3?: S3Target | undefined
  /** Whether the folder serves only for the upload: the backup in it is deleted afterwards. */
  readonly isStaging?: boolean | undefined
}

/** What was written, as `tassis backup --json` prints it; travels between threads. */
export interface BackupReport {
  readonly path: string
  readonly taken_at: string
  readonly files: number
  readonly total_bytes: number
  /** Bytes that are not shared with the previous backup. */
  readonly written_bytes: number
  /** Bytes sent to S3; null when none is used. */
  readonly sent_bytes: number | null
  readonly has_key: boolean
  /** Fingerprints of all master keys that the backup needs, the newest first. */
  readonly master_keys: readonly string[]
  readonly removed: readonly string[]
  readonly duration_ms: number
  readonly warnings: readonly string[]
}

/**
 * @param onCopied called when the data directory is no longer read
 * @throws BackupError that says what to do
 */
export async function runJob(
  job: BackupJob,
  clock: Pick<Clock, 'now' | 'monotonicMs'>,
  onCopied: () => void,
): Promise<BackupReport> {
  const startedAtMs = clock.monotonicMs()
  const { folder, finish } = job.isArchive
    ? await prepareArchive(job.target)
    : { folder: job.target, finish: keepFolder }
  const { path, manifest, totalBytes, writtenBytes } = await createBackup({ ...job, folder }, clock).catch(
    async (error: unknown) => {
      if (job.isArchive) await rmdir(folder).catch(() => undefined)
      throw error
    },
  )
  onCopied()
  const finished = await finish(path)
  // Before the upload: a storage that fails for weeks must not fill this disk.
  const removed =
    job.keep === undefined || job.isArchive ? [] : removeOldBackups(folder, job.keep, hostname(), clock.now())
  const uploaded = await upload(job, path, manifest)
  return {
    path: uploaded.path ?? finished,
    taken_at: manifest.taken_at,
    files: manifest.files.length,
    total_bytes: totalBytes,
    written_bytes: writtenBytes,
    sent_bytes: uploaded.sentBytes,
    has_key: manifest.has_key,
    master_keys: listNeededKeys(manifest),
    removed: [...removed, ...uploaded.removed],
    duration_ms: Math.round(clock.monotonicMs() - startedAtMs),
    warnings: manifest.warnings,
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

const keepFolder = async (path: string): Promise<string> => path

/** An archive is packed from a folder beside it. */
async function prepareArchive(file: string): Promise<{ folder: string; finish(path: string): Promise<string> }> {
  if (existsSync(file)) throw new BackupError(`${file} exists; use another name.`)
  const folder = `${file}.parts`
  await createFolder(dirname(file)).catch((error: unknown) => {
    throw explainWriteError(error, dirname(file), 'nothing was written')
  })
  return {
    folder,
    async finish(path) {
      try {
        await packBackup(path, file)
        return file
      } catch (error) {
        throw explainWriteError(error, dirname(file), 'nothing of the backup was kept')
      } finally {
        await rm(path, { recursive: true, force: true })
        await rmdir(folder).catch(() => undefined)
      }
    },
  }
}
