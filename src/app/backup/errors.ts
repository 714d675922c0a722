/** @module The failure of a backup or a restore, as one sentence for the operator. */
import { CommandError } from '#app/cli/options.ts'
import { describeOwner } from '#platform/disk/data-owner.ts'
import { isDiskFull } from '#platform/disk/storage-errors.ts'
import { systemCodeOf } from '#platform/errors.ts'

export class BackupError extends CommandError {}

/**
 * Explains an error of writing below `folder`; returns any other error unchanged.
 * @param cleaned what happened to what was written, such as `nothing of it was kept`
 */
export function explainWriteError(error: unknown, folder: string, cleaned: string): unknown {
  if (error instanceof BackupError) return error
  // SQLite's backup interface gives no code.
  if (isDiskFull(error) || (error instanceof Error && /database or disk is full/.test(error.message)))
    return new BackupError(`The disk of ${folder} is full; ${cleaned}. Free space or use another disk.`)
  const code = systemCodeOf(error)
  if (code === 'EEXIST' || code === 'ENOTDIR')
    return new BackupError(`${folder} cannot be used: a file is in the place of a folder; use another path.`)
  if (code === 'EROFS')
    return new BackupError(
      `${folder} is on a read-only file system for this process; with systemd, add \`ReadWritePaths=${folder}\` to the unit.`,
    )
  if (code === 'EACCES' || code === 'EPERM') {
    const path = error instanceof Error && 'path' in error ? String(error.path) : folder
    return new BackupError(
      `This user may not use ${path}, which belongs to ${describeOwner(path)}; run the command as that user.`,
    )
  }
  if (code === 'EIO') return new BackupError(`The disk of ${folder} reports an I/O error; ${cleaned}.`)
  return error
}
