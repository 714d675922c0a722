/**
 * @module Names of backups in their folder: `tassis-20261123T031500Z`. While a backup is written its name shows the
 * process that writes it, so that the next backup can remove what a killed one left.
 */
import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { listNames } from '#platform/content/files.ts'
import { systemCodeOf } from '#platform/errors.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'

const NAME = /^tassis-(\d{8}T\d{6}Z)(?:-\d+)?$/
const PARTIAL = /^\.tassis-(\d{8}T\d{6}Z)-(\d+)-(.+)\.partial$/
/** What another machine began is left over after this time, because its processes are not visible here. */
const MAX_FOREIGN_AGE_MS = hours(24)

/** `20261123T031500Z` */
const formatStamp = (at: Millis): string => new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')

const parseStamp = (stamp: string): Millis =>
  Date.parse(stamp.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'))

/** @param taken names that exist; two backups of one second get different names */
export function toBackupName(at: Millis, taken: ReadonlySet<string>): string {
  const name = `tassis-${formatStamp(at)}`
  let free = name
  for (let count = 2; taken.has(free); count++) free = `${name}-${count}`
  return free
}

export const toPartialName = (at: Millis, host: string, pid: number): string =>
  `.tassis-${formatStamp(at)}-${pid}-${host}.partial`

export const isBackupName = (name: string): boolean => NAME.test(name)

/** Oldest first. */
export const sortBackupNames = (names: readonly string[]): string[] =>
  names.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))

export const findBackups = (folder: string): string[] => sortBackupNames(listNames(folder).filter(isBackupName))

export function removeLeftovers(folder: string, host: string, now: Millis): void {
  for (const name of listNames(folder)) {
    const [, stamp = '', pid, writer] = PARTIAL.exec(name) ?? []
    if (pid === undefined) continue
    const isLeft = writer === host ? !isRunning(Number(pid)) : now - parseStamp(stamp) > MAX_FOREIGN_AGE_MS
    if (isLeft) rmSync(join(folder, name), { recursive: true, force: true })
  }
}

/** Whether another process with this id runs. This process begins one backup at a time. */
function isRunning(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return systemCodeOf(error) === 'EPERM'
  }
}

/**
 * Removes the oldest backups beyond `keep`; returns their names. Each loses its name first, so that a kill leaves no
 * half of a backup.
 */
export function removeOldBackups(folder: string, keep: number, host: string, now: Millis): string[] {
  const old = findBackups(folder).slice(0, -keep)
  for (const name of old) {
    const removed = join(folder, toPartialName(now, host, process.pid))
    renameSync(join(folder, name), removed)
    rmSync(removed, { recursive: true, force: true })
  }
  return old
}
