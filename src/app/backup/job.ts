/** @module What one backup does: writes a folder or an archive, then removes backups beyond the number to keep. */
import { existsSync } from 'node:fs'
import { mkdir, rm, rmdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import type { Clock } from '#platform/clock.ts'
import { packBackup } from './archive.ts'
import { type BackupRequest, createBackup } from './create-backup.ts'
import { BackupError, explainWriteError } from './errors.ts'
import { removeOldBackups } from './names.ts'

export interface BackupJob extends Omit<BackupRequest, 'folder'> {
  /** Absolute path of the folder that holds backups, or of the archive to be written. */
  readonly target: string
  readonly isArchive: boolean
  /** Backups to keep in the folder, the new one included; undefined: all. */
  readonly keep?: number | undefined
}

/** What was written; travels between threads. */
export interface BackupReport {
  readonly path: string
  readonly takenAt: string
  readonly files: number
  readonly totalBytes: number
  /** Bytes that are not shared with the previous backup. */
  readonly writtenBytes: number
  readonly hasKey: boolean
  readonly warnings: readonly string[]
  /** Names of the old backups that were removed. */
  readonly removed: readonly string[]
  readonly durationMs: number
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
  const { path, manifest, totalBytes, writtenBytes } = await createBackup({ ...job, folder }, clock)
  onCopied()
  const finished = await finish(path)
  const removed =
    job.keep === undefined || job.isArchive ? [] : removeOldBackups(folder, job.keep, hostname(), clock.now())
  return {
    path: finished,
    takenAt: manifest.taken_at,
    files: manifest.files.length,
    totalBytes,
    writtenBytes,
    hasKey: manifest.has_key,
    warnings: manifest.warnings,
    removed,
    durationMs: Math.round(clock.monotonicMs() - startedAtMs),
  }
}

const keepFolder = async (path: string): Promise<string> => path

/** An archive is packed from a folder beside it. */
async function prepareArchive(file: string): Promise<{ folder: string; finish(path: string): Promise<string> }> {
  if (existsSync(file)) throw new BackupError(`${file} exists; use another name.`)
  const folder = `${file}.parts`
  await mkdir(dirname(file), { recursive: true }).catch((error: unknown) => {
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
