/** @module The backup that the settings describe: run by the schedule, and by `tassis backup` without a path. */
import { join, resolve } from 'node:path'
import type { Config } from '#platform/config.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { OpenedApp } from '../create.ts'
import { BackupError } from './errors.ts'
import type { BackupJob } from './job.ts'
import { type HoldHandle, runBackup } from './run.ts'
import { readS3Target } from './s3.ts'
import { recordFailure, recordSuccess } from './state.ts'

/** Holds the only copy of a backup that goes to S3 alone, until it has been sent. */
const STAGING_FOLDER = 'backup-staging'

/** Throws BackupError when the settings name no place, or are incomplete. */
export function createScheduledJob(config: Config): BackupJob {
  const s3 = readS3Target(config)
  if (config.backupDir === '' && !s3)
    throw new BackupError(
      'No place for backups is set; give a path, or set TASSIS_BACKUP_DIR or TASSIS_BACKUP_S3_ENDPOINT.',
    )
  const isStaging = config.backupDir === ''
  return {
    dataDir: config.dataDir,
    hostname: config.hostname,
    target: isStaging ? join(config.dataDir, STAGING_FOLDER) : resolve(config.backupDir),
    isArchive: false,
    keep: config.backupKeep,
    s3,
    isStaging,
  }
}

/** Cron patterns of the times of day: second, minute, hour, day, month, weekday. */
export const toPatterns = ({ backupAt }: Pick<Config, 'backupAt'>): string[] =>
  backupAt.map((time) => `0 ${Number(time.slice(3))} ${Number(time.slice(0, 2))} * * *`)

/** Runs a backup and records its outcome; never rejects because of it. Aborting the signal ends it without a record. */
export async function runScheduledBackup({ app, deletionHold }: OpenedApp, signal: AbortSignal): Promise<void> {
  const { commit, clock, log } = app
  const id = formatUuid(newUuid())
  const hold: HoldHandle = { renew: () => deletionHold.renew(id), release: () => deletionHold.release(id) }
  try {
    const report = await runBackup(createScheduledJob(app.config), hold, clock, signal)
    await commit.writeFromReserve((tx) => recordSuccess(tx.db, clock.now(), report))
    const { path, totalBytes, writtenBytes, durationMs, warnings } = report
    log.info({ path, totalBytes, writtenBytes, durationMs }, 'backup written and verified')
    for (const warning of warnings) log.warn({ path, warning }, 'backup found damaged data')
  } catch (error) {
    if (signal.aborted) return
    const failure = error instanceof BackupError ? error.message : 'it ended unexpectedly; see the log.'
    await commit.writeFromReserve((tx) => recordFailure(tx.db, clock.now(), failure))
    log.error(error instanceof BackupError ? { reason: failure } : { err: error }, 'scheduled backup failed')
  }
}
