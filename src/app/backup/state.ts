/** @module When the last scheduled backup succeeded or failed; for the log, the health of the service and monitoring. */
import type { Database } from 'bun:sqlite'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import type { BackupReport } from './job.ts'

/** What a scheduled backup that succeeded leaves. */
type Success = Pick<BackupReport, 'path' | 'total_bytes' | 'duration_ms' | 'warnings'>

interface BackupState extends Partial<Success> {
  /** The last scheduled backup that was written and verified; ISO 8601. */
  readonly succeeded_at?: string
  readonly failed_at?: string
  readonly failure?: string
}

const KEY = 'scheduled_backup'
/** A scheduled backup runs at least once a day, and may take some hours. */
const MAX_AGE_MS = hours(30)

export function readBackupState(db: Database): BackupState {
  const stored = getMeta(db, KEY)
  return stored === undefined ? {} : (JSON.parse(stored) as BackupState)
}

const store = (db: Database, state: BackupState): void => setMeta(db, KEY, JSON.stringify(state))

export const recordSuccess = (db: Database, at: Millis, { path, total_bytes, duration_ms, warnings }: Success): void =>
  store(db, { succeeded_at: isoTime(at), path, total_bytes, duration_ms, warnings })

export const recordFailure = (db: Database, at: Millis, failure: string): void =>
  store(db, { ...readBackupState(db), failed_at: isoTime(at), failure })

export const isBackupScheduled = (config: Pick<Config, 'backupDir' | 'backupS3Url'>): boolean =>
  config.backupDir !== '' || config.backupS3Url !== ''

/** Returns what an operator must do about scheduled backups; empty when they succeed, or none are scheduled. */
export function findBackupProblems(
  config: Pick<Config, 'backupDir' | 'backupS3Url'>,
  db: Database,
  now: Millis,
): string[] {
  if (!isBackupScheduled(config)) return []
  const { succeeded_at: succeededAt, failed_at: failedAt, failure, warnings = [] } = readBackupState(db)
  const last = succeededAt === undefined ? 'No scheduled backup has succeeded yet' : `The last one is of ${succeededAt}`
  if (failedAt !== undefined) return [`The scheduled backup of ${failedAt} failed: ${failure} ${last}.`]
  if (succeededAt !== undefined && now - Date.parse(succeededAt) > MAX_AGE_MS)
    return [`No scheduled backup was written for more than a day. ${last}; run \`tassis backup\`.`]
  return warnings.map((warning) => `The scheduled backup of ${succeededAt} found: ${warning}.`)
}
