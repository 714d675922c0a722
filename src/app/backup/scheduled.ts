/**
 * @module The backup that the settings describe: run by the schedule, some minutes after a start if the last one was
 * missed, and by `tassis backup` without a path.
 */
import { join, resolve } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { perOwner } from '#platform/per-owner.ts'
import { askWorker } from '#platform/process/workers.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import type { OpenedApp } from '../create.ts'
import type { BackupAnswer, BackupJob, BackupReport } from './backup-worker.ts'
import { BackupError } from './errors.ts'
import { readS3Target } from './s3.ts'
import { isBackupScheduled, readBackupState, recordFailure, recordSuccess } from './state.ts'

/** Holds the only copy of a backup that goes to S3 alone, until it has been sent. */
const STAGING_FOLDER = 'backup-staging'

/** Throws BackupError when the settings name no place, or are incomplete. */
export function createScheduledJob(config: Config): BackupJob {
  const s3 = readS3Target(config)
  if (config.backupDir === '' && !s3)
    throw new BackupError('No place for backups is set; give a path, or set TASSIS_BACKUP_DIR or TASSIS_BACKUP_S3_URL.')
  const isStaging = config.backupDir === ''
  return {
    dataDir: config.dataDir,
    hostname: config.hostname,
    folder: isStaging ? join(config.dataDir, STAGING_FOLDER) : resolve(config.backupDir),
    keep: config.backupKeep,
    s3,
    isStaging,
  }
}

/** Cron patterns of the times of day: second, minute, hour, day, month, weekday. */
export const toPatterns = ({ backupAt }: Pick<Config, 'backupAt'>): string[] =>
  backupAt.map((time) => `0 ${Number(time.slice(3))} ${Number(time.slice(0, 2))} * * *`)

const findLastDue = ({ backupAt }: Pick<Config, 'backupAt'>, now: Millis): Millis =>
  Math.max(
    ...backupAt.map((time) => {
      const today = now - (now % days(1)) + hours(Number(time.slice(0, 2))) + minutes(Number(time.slice(3)))
      return today > now ? today - days(1) : today
    }),
  )

/**
 * Whether the latest time of the schedule passed without a backup or an attempt, because the service did not run, or
 * because none was scheduled then. Not while mail waits behind a fence: a copy that was just restored, perhaps to look
 * at it, must not remove the oldest backup, which may be the one to restore next.
 */
export function isBackupMissed({ config, db }: Pick<App, 'config' | 'db'>, now: Millis): boolean {
  if (!isBackupScheduled(config) || readFence(db)) return false
  const { succeeded_at: succeededAt, failed_at: failedAt } = readBackupState(config.dataDir)
  const attempts = [succeededAt, failedAt].map((at) => (at === undefined ? 0 : Date.parse(at)))
  return Math.max(...attempts) < findLastDue(config, now)
}

/** Runs the backup that was missed, if one was. A place that fails is not tried again before its next time. */
export async function runMissedBackup(opened: OpenedApp, signal: AbortSignal): Promise<void> {
  const { app } = opened
  if (!isBackupMissed(app, app.clock.now())) return
  app.log.info('the last scheduled backup was missed; writing it now')
  await runScheduledBackup(opened, signal)
}

const runOf = perOwner((opened: OpenedApp) => shareRun((signal: AbortSignal) => runAndRecord(opened, signal)))

/**
 * Runs a backup and records its outcome; never rejects because of it. Aborting the signal ends it without a record. A
 * call while one runs waits for that.
 */
export const runScheduledBackup = (opened: OpenedApp, signal: AbortSignal): Promise<void> => runOf(opened)(signal)

async function runAndRecord({ app }: OpenedApp, signal: AbortSignal): Promise<void> {
  const { config, clock, log } = app
  try {
    const report = await runConfiguredBackup(config, clock, {}, signal)
    const { path, total_bytes: totalBytes, written_bytes: writtenBytes, duration_ms: durationMs, warnings } = report
    const outcome = warnings.length === 0 ? 'backup written and verified' : 'backup written, with warnings'
    log.info({ path, totalBytes, writtenBytes, durationMs }, outcome)
    for (const warning of warnings) log.warn({ path, warning }, 'warning of the backup')
  } catch (error) {
    if (signal.aborted) return
    const failure = error instanceof BackupError ? error.message : 'it ended unexpectedly; see the log.'
    log.error(error instanceof BackupError ? { reason: failure } : { err: error }, 'scheduled backup failed')
    const unrecorded = recordFailure(config.dataDir, clock.now(), failure)
    if (unrecorded !== undefined) log.error({ reason: unrecorded }, 'cannot record that the backup failed')
  }
}

/** Writes the backup that the settings describe, and records that. Throws BackupError that says what to do. */
export async function runConfiguredBackup(
  config: Config,
  clock: Pick<Clock, 'now'>,
  options: Partial<Pick<BackupJob, 'masterKey' | 'keep'>>,
  signal?: AbortSignal,
): Promise<BackupReport> {
  const report = await runBackup({ ...createScheduledJob(config), ...options }, signal)
  const unrecorded = recordSuccess(config.dataDir, clock.now(), report)
  if (unrecorded === undefined) return report
  return { ...report, warnings: [...report.warnings, `its success could not be recorded: ${unrecorded}`] }
}

/**
 * Resolves when the backup is complete. Throws BackupError that says what to do.
 * @param signal aborting it ends the backup; the next one removes what it left
 */
export async function runBackup(job: BackupJob, signal?: AbortSignal): Promise<BackupReport> {
  const answer = await askWorker<BackupAnswer>('backup', job, signal)
  if ('problem' in answer) throw new BackupError(answer.problem)
  return answer.report
}
