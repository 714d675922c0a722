/**
 * @module `tassis backup`: writes or verifies a backup. Works with and without a running service: it reads the data
 * itself, so the backup belongs to the user who runs it.
 * `tassis restore`: restores a backup into an empty data directory.
 */
import { join, resolve } from 'node:path'
import { Option } from 'commander'
import { describeOwner, runAsOwner } from '#platform/disk/data-owner.ts'
import { attempt } from '#platform/errors.ts'
import { requireReadable } from '#platform/replication/position.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { BackupReport } from '../backup/backup-worker.ts'
import { BackupError } from '../backup/errors.ts'
import { findMissingKeys, formatKeys, readConfiguredKey, readKeyFile, readKeyText } from '../backup/key.ts'
import {
  type BackupReader,
  compareFiles,
  describeManifest,
  findBackups,
  listNeededKeys,
  openBackup,
} from '../backup/manifest.ts'
import { restoreBackup } from '../backup/restore.ts'
import { readS3Target, S3Backups } from '../backup/s3.ts'
import { createScheduledJob, runBackup, runConfiguredBackup } from '../backup/scheduled.ts'
import { loadConfig } from '../settings.ts'
import { requireData } from './call.ts'
import type { Command } from './command.ts'
import { createWholeNumberParser, UsageError } from './options.ts'
import { formatFields, type JsonOption, printResult } from './output.ts'

interface BackupOptions extends JsonOption {
  readonly withKey?: boolean | undefined
  readonly keep?: number | undefined
  readonly verify?: boolean | undefined
  readonly list?: boolean | undefined
}

export function addBackupCommand(program: Command): void {
  program
    .add('backup', 'write a backup of the data directory while the service runs, or verify or list backups')
    .argument('[path]', 'folder in which the backup gets a folder of its own; default: the places of scheduled backups')
    .option('--with-key', 'include the master key; whoever has the backup can then read everything in it')
    .option(
      '--keep <count>',
      'remove older backups beyond this number; default: TASSIS_BACKUP_KEEP in the places of scheduled backups, elsewhere none are removed',
      createWholeNumberParser(1, 10_000),
    )
    .addOption(
      new Option('--verify', 'compare a backup with its manifest; exit code 1 if it is damaged').conflicts('list'),
    )
    .option('--list', 'list the backups in the folder, or in the places of scheduled backups')
    .action(async (path: string | undefined, options: BackupOptions) => {
      if (options.list)
        printResult(options, { data: await list(path) }, ({ data }) => data.join('\n') || 'There is no backup.')
      else if (options.verify) await verify(path, options)
      else printResult(options, await write(path, options), formatReport)
    })
}

async function write(path: string | undefined, { withKey = false, keep }: BackupOptions): Promise<BackupReport> {
  if (path?.match(/\.tar(\.zst)?$/))
    throw new UsageError('A backup is a folder; name the folder to write it into, then pack it (docs/backup.md).')
  const { config } = loadConfig()
  requireData(config)
  requireReadable(config.dataDir)
  const masterKey = withKey ? readKeyText(config) : undefined
  const { dataDir, hostname } = config
  const folder = path === undefined ? createScheduledJob(config).folder : resolve(path)
  // What root writes where the service writes its backups belongs to the user of the service, who removes it one day.
  return runAsOwner(
    dataDir,
    () =>
      path === undefined
        ? runConfiguredBackup(config, systemClock, { masterKey, keep: keep ?? config.backupKeep })
        : runBackup({ dataDir, hostname, folder, keep, masterKey }),
    folder,
  )
}

/** The backups in a folder, else those of the schedule; oldest first. */
async function list(path: string | undefined): Promise<string[]> {
  const listFolder = (folder: string) => findBackups(folder).map((name) => join(folder, name))
  if (path !== undefined) return listFolder(resolve(path))
  const { folder, isStaging, s3 } = createScheduledJob(loadConfig().config)
  const stored = s3 ? (await new S3Backups(s3).names()).map((name) => `${S3_PREFIX}${name}`) : []
  return [...(isStaging ? [] : listFolder(folder)), ...stored]
}

const formatReport = ({ warnings, removed, has_key: hasKey, master_keys: keys, ...report }: BackupReport): string =>
  [
    `Backup written${warnings.length === 0 ? ' and verified' : ', with warnings'}: ${report.path}`,
    formatFields(report, 2),
    hasKey
      ? `  with the ${formatKeys(keys)}: keep it where nobody else can read it`
      : `  without the ${formatKeys(keys)}: keep a copy apart, or nothing in the backup can be used`,
    ...warnings.map((warning) => `  warning: ${warning}`),
    ...removed.map((name) => `  removed the old backup ${name}`),
  ].join('\n')

/** The keys of a backup that the settings do not provide; null where they name no readable key. */
const findMissingHere = (fingerprints: readonly string[]): string[] | null =>
  attempt(() => findMissingKeys(readKeyText(loadConfig().config), fingerprints)) ?? null

async function verify(path: string | undefined, options: BackupOptions): Promise<void> {
  if (path === undefined)
    throw new UsageError('Name the backup to verify; `tassis backup --list` shows those of the schedule.')
  const reader = await openNamedBackup(path)
  const differences = await compareFiles(reader)
  const problems = differences.length === 0 ? (reader.check?.() ?? []) : differences
  const { manifest } = reader
  const result = {
    ok: problems.length === 0,
    path: formatBackupPath(path),
    ...describeManifest(manifest),
    missing_master_keys: manifest.has_key ? [] : findMissingHere(listNeededKeys(manifest)),
    problems,
  }
  printResult(options, result, ({ ok, ...shown }) =>
    [
      ok ? `${reader.name} is as it was written.` : `${reader.name} is damaged; use another backup.`,
      formatFields(shown, 2),
      ...(result.missing_master_keys?.length ? ['The key file here lacks keys; look for an older copy of it.'] : []),
    ].join('\n'),
  )
  if (!result.ok) process.exitCode = 1
}

const S3_PREFIX = 's3:'

/** Opens a backup by its path, or by its name in the storage of the settings. Throws BackupError. */
async function openNamedBackup(path: string): Promise<BackupReader> {
  if (!path.startsWith(S3_PREFIX)) return openBackup(path)
  const target = readS3Target(loadConfig().config)
  if (!target) throw new BackupError('No storage is set; set TASSIS_BACKUP_S3_URL and its access key.')
  return new S3Backups(target).open(path.slice(S3_PREFIX.length))
}

const formatBackupPath = (path: string): string => (path.startsWith(S3_PREFIX) ? path : resolve(path))

export function addRestoreCommand(program: Command): void {
  program
    .add('restore', 'restore a backup into an empty data directory; nothing is restored from a damaged one')
    .argument('<backup>', 'folder of one backup, or s3:NAME')
    .option('--into <folder>', 'the data directory; default: that of the settings')
    .option('--key <file>', 'file of the master key, if the backup does not hold it')
    .action(async (path: string, options: JsonOption & { into?: string; key?: string }) => {
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
        ...describeManifest(manifest),
        duration_ms: Math.round(systemClock.monotonicMs() - startedAtMs),
      }
      printResult(options, result, () =>
        [
          `Restored ${reader.name} into ${dataDir}, which belongs to ${describeOwner(dataDir)}; every file is as it was backed up.`,
          formatFields(result, 2),
          'Next: start the service. Mail that was open at that time waits, because it may have been sent since: `tassis fence`.',
        ].join('\n'),
      )
    })
}
