/**
 * @module Holds off the deletion of content while a backup copies it, because the copied database may refer to content
 * that has been deleted since. Backups share a lock on a file of the data directory, so one that was killed holds
 * nothing, and one that is stuck holds nothing for ever.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from '#platform/attempt.ts'
import { giveFileToOwner } from '#platform/disk/data-owner.ts'
import { isLocked, shareLock } from '#platform/disk/lock.ts'
import type { Clock } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'

const toPath = (dataDir: string): string => join(dataDir, 'backup-lock')

/** How long backups may hold off deletion without a pause. */
const MAX_HOLD_MS = hours(6)

/** Holds off deletion until it is released. */
export function holdDeletion(dataDir: string): { release(): void } {
  const lock = shareLock(toPath(dataDir))
  if (!lock) throw new Error(`the lock ${toPath(dataDir)} is not free`)
  giveFileToOwner(dataDir, toPath(dataDir))
  return lock
}

/** Returns a function that says whether a backup holds off deletion. */
export function createHoldReader(dataDir: string, clock: Pick<Clock, 'monotonicMs'>): () => boolean {
  let sinceMs: number | undefined
  return () => {
    // Root has perhaps just created it and not yet given it to us.
    const isHeld = existsSync(toPath(dataDir)) && (attempt(() => isLocked(toPath(dataDir))) ?? true)
    sinceMs = isHeld ? (sinceMs ?? clock.monotonicMs()) : undefined
    return sinceMs !== undefined && clock.monotonicMs() - sinceMs < MAX_HOLD_MS
  }
}
