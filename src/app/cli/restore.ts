/** @module `tassis restore`: restores a backup into an empty data directory. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '#platform/time/clock.ts'
import { BackupError } from '../backup/errors.ts'
import { readConfiguredKey, readKeyFile } from '../backup/key.ts'
import type { BackupReader } from '../backup/manifest.ts'
import { openBackup } from '../backup/reader.ts'
import { restoreBackup } from '../backup/restore.ts'
import { readS3Target, S3Backups } from '../backup/s3.ts'
import { describeOwner } from '../data-owner.ts'
import { loadConfig } from '../settings.ts'
import { addCommand, type JsonOption } from './options.ts'
import { formatCount, formatSize, formatUtcFromNow, printResult } from './output.ts'

const S3_PREFIX = 's3:'

/** Opens a backup by its path, or by its name in the storage of the settings. Throws BackupError. */
export async function openNamedBackup(path: string): Promise<BackupReader> {
  if (!path.startsWith(S3_PREFIX)) return openBackup(path)
  const target = readS3Target(loadConfig().config)
  if (!target) throw new BackupError('No storage is set; set TASSIS_BACKUP_S3_URL and its access key.')
  return new S3Backups(target).open(path.slice(S3_PREFIX.length))
}

export const formatBackupPath = (path: string): string => (path.startsWith(S3_PREFIX) ? path : resolve(path))

interface RestoreOptions extends JsonOption {
  readonly into?: string | undefined
  readonly key?: string | undefined
}

export function addRestoreCommand(program: Command): void {
  addCommand(
    program,
    'restore',
    'restore a backup into an empty data directory; nothing is restored from a damaged one',
  )
    .argument('<backup>', 'folder, .tar or .tar.zst file of one backup, or s3:NAME')
    .option('--into <folder>', 'the data directory; default: that of the settings')
    .option('--key <file>', 'file of the master key, if the backup does not hold it')
    .action(async (path: string, options: RestoreOptions) => {
      const { config } = loadConfig()
      const startedAtMs = systemClock.monotonicMs()
      const dataDir = options.into === undefined ? config.dataDir : resolve(options.into)
      const reader = await openNamedBackup(path)
      const configuredKey = readConfiguredKey(config)
      const key = options.key === undefined ? undefined : readKeyFile(options.key)
      await restoreBackup({ reader, dataDir, key, configuredKey })
      const { manifest } = reader
      const result = {
        data_dir: dataDir,
        backup: formatBackupPath(path),
        taken_at: manifest.taken_at,
        tassis: manifest.tassis,
        hostname: manifest.hostname,
        files: manifest.files.length,
        total_bytes: manifest.files.reduce((sum, { size }) => sum + size, 0),
        duration_ms: Math.round(systemClock.monotonicMs() - startedAtMs),
        warnings: manifest.warnings,
      }
      printResult(options, result, () =>
        [
          `Restored ${reader.name} into ${dataDir}, which belongs to ${describeOwner(dataDir)}`,
          `  state of ${formatUtcFromNow(result.taken_at)}, of ${result.hostname}`,
          `  ${formatCount(result.files, 'file')}, ${formatSize(result.total_bytes)}, in ${(result.duration_ms / 1000).toFixed(1)} s; every file is as it was backed up`,
          ...result.warnings.map((warning) => `  warning at the time of the backup: ${warning}`),
          'Next: start the service. Mail that was open at that time waits, because it may have been sent since: `tassis fence`.',
        ].join('\n'),
      )
    })
}
