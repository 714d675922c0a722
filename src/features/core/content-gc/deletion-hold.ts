/**
 * @module Holds off the deletion of content while a backup copies it, because the copied database may refer to content
 * that has been deleted since. Backups share a lock on a file of the data directory, so one that was killed holds
 * nothing, and one that is stuck holds nothing for ever.
 */
import { statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { giveFileToOwner } from '#platform/disk/data-owner.ts'
import { isLocked, shareLock } from '#platform/disk/lock.ts'
import { attempt } from '#platform/errors.ts'
import type { Clock } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'

const toPath = (dataDir: string): string => join(dataDir, 'backup-lock')

/** How long a backup may hold off deletion. */
const MAX_HOLD_MS = hours(6)

/** Holds off deletion until it is released. The time of the file says since when. */
export function holdDeletion(dataDir: string, clock: Pick<Clock, 'now'>): { release(): void } {
  const path = toPath(dataDir)
  const lock = shareLock(path)
  if (!lock) throw new Error(`the lock ${path} is not free`)
  giveFileToOwner(dataDir, path)
  const since = new Date(clock.now())
  utimesSync(path, since, since)
  return lock
}

/** Returns a function that says whether a backup holds off deletion. */
export const createHoldReader = (dataDir: string, clock: Pick<Clock, 'now'>) => (): boolean => {
  const since = statSync(toPath(dataDir), { throwIfNoEntry: false })?.mtimeMs
  if (since === undefined || clock.now() - since >= MAX_HOLD_MS) return false
  // Root has perhaps just created it and not yet given it to us.
  return attempt(() => isLocked(toPath(dataDir))) ?? true
}
