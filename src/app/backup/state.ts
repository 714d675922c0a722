/**
 * @module When the last scheduled backup succeeded or failed; for the log, the health of the service and monitoring. A
 * file, because a command writes it as well.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { giveFileToOwner } from '#platform/disk/data-owner.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { attempt } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Config } from '#platform/settings/config.ts'
import { hours, type Millis } from '#platform/units.ts'
import type { BackupReport } from './backup-worker.ts'

/** What a scheduled backup that succeeded leaves. */
type Success = Pick<BackupReport, 'path' | 'total_bytes' | 'duration_ms' | 'warnings'>

interface BackupState extends Partial<Success> {
  /** The last scheduled backup that was written and verified; ISO 8601. */
  readonly succeeded_at?: string
  readonly failed_at?: string
  readonly failure?: string
}

/** A scheduled backup runs at least once a day, and may take some hours. */
const MAX_AGE_MS = hours(30)

const toPath = (dataDir: string): string => join(dataDir, 'backup-state.json')

export const readBackupState = (dataDir: string): BackupState =>
  attempt(() => JSON.parse(readFileSync(toPath(dataDir), 'utf8')) as BackupState) ?? {}

/** Returns what kept it from being stored, such as a full disk; an exception would make the schedule back up again. */
function store(dataDir: string, state: BackupState): string | undefined {
  try {
    replaceFileSync(toPath(dataDir), `${JSON.stringify(state)}\n`)
    giveFileToOwner(dataDir, toPath(dataDir))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

export function recordSuccess(dataDir: string, at: Millis, report: Success): string | undefined {
  const { path, total_bytes, duration_ms, warnings } = report
  return store(dataDir, { succeeded_at: isoTime(at), path, total_bytes, duration_ms, warnings })
}

export const recordFailure = (dataDir: string, at: Millis, failure: string): string | undefined =>
  store(dataDir, { ...readBackupState(dataDir), failed_at: isoTime(at), failure })

export const isBackupScheduled = (config: Pick<Config, 'backupDir' | 'backupS3Url'>): boolean =>
  config.backupDir !== '' || config.backupS3Url !== ''

/** Returns what an operator must do about scheduled backups; empty when they succeed, or none are scheduled. */
export function findBackupProblems(
  config: Pick<Config, 'dataDir' | 'backupDir' | 'backupS3Url'>,
  now: Millis,
): string[] {
  if (!isBackupScheduled(config)) return []
  const { succeeded_at: succeededAt, failed_at: failedAt, failure, warnings = [] } = readBackupState(config.dataDir)
  const last = succeededAt === undefined ? 'No scheduled backup has succeeded yet' : `The last one is of ${succeededAt}`
  if (failedAt !== undefined) return [`The scheduled backup of ${failedAt} failed: ${failure} ${last}.`]
  if (succeededAt !== undefined && now - Date.parse(succeededAt) > MAX_AGE_MS)
    return [`No scheduled backup was written for more than a day. ${last}; run \`tassis backup\`.`]
  return warnings.map((warning) => `The scheduled backup of ${succeededAt} found: ${warning}.`)
}
