/** @module Checks of copies of the data: scheduled backups, and what waits since the data were restored from a copy. */

import { findFenceProblem } from '#app/fence/release.ts'
import { findBackupProblems, isBackupScheduled, readBackupState } from '../../backup/state.ts'
import type { DoctorContext } from '../context.ts'
import { type NewFinding, NO_DATA, ok, warning } from '../finding.ts'

/** Scheduled backups that failed, are late or found problems. */
export function checkBackups({ config, db, clock }: DoctorContext): NewFinding[] {
  if (!db) return [NO_DATA]
  if (!isBackupScheduled(config))
    return [
      warning(
        'No backups are scheduled.',
        'Set TASSIS_BACKUP_DIR to a folder on another disk, or TASSIS_BACKUP_S3_URL (docs/backup.md); ignore this if something else makes copies.',
      ),
    ]
  const problems = findBackupProblems(config, db, clock.now())
  if (problems.length > 0)
    return [warning(problems.join(' '), 'Mend the cause, then run `tassis backup`; docs/backup.md.')]
  const { succeeded_at: succeededAt } = readBackupState(db)
  return [
    ok(
      succeededAt === undefined
        ? 'None was written yet: the service writes the first a few minutes after its start.'
        : `The last is of ${succeededAt}.`,
    ),
  ]
}

/** Mail that waits behind the fence of a restored copy. */
export function checkRestored({ db }: DoctorContext): NewFinding[] {
  if (!db) return [NO_DATA]
  const problem = findFenceProblem({ db })
  return [problem ? warning(problem.message, problem.fix) : ok('Nothing waits as restored.')]
}
