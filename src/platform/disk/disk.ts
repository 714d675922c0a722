/**
 * @module Checks whether the disk of the data directory has space for new work. Queries the system in the thread pool
 * at most once a second, and subtracts what was written since, so the result holds at each commit. Never frees or
 * writes anything itself.
 */

import { statfsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Log } from '#platform/log/log.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'
import { MiB, minutes, seconds } from '#platform/units.ts'

/** A database with a write-ahead log on the disk. */
export interface WalWriter {
  /** Size of the log. Before a checkpoint can truncate the log, the database may grow by as many bytes. */
  readonly walBytes: number
  /** Truncates the log. */
  checkpoint(): Promise<void>
}

export interface DiskGuardOptions {
  /** Any folder on the disk. */
  readonly folder: string
  /** 0: the disk never counts as low, and the system is never queried. */
  readonly minFreeBytes: number
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Bytes that an unprivileged process can still write. */
  readonly readFreeBytes?: (folder: string) => Promise<number>
  /** Called when the state changes, at most once a minute. `freeBytes`: undefined when the system cannot tell. */
  readonly onChange?: (isLow: boolean, freeBytes: number | undefined) => void
}

/** How long a result of the system stays valid. */
const STAT_TTL_MS = seconds(1)
/** Minimum time between two reports of a change, so that a disk at the limit does not fill itself with log messages. */
const CHANGE_INTERVAL_MS = minutes(1)
/** Truncating a smaller log is not worth it. */
const MIN_CHECKPOINTED_WAL_BYTES = MiB
const MAX_HYSTERESIS_BYTES = 64 * MiB

/** What must be free on a disk that was low before it counts as having space again. */
export const enoughAfterLow = (minFreeBytes: number): number =>
  minFreeBytes + Math.min(minFreeBytes / 4, MAX_HYSTERESIS_BYTES)

export type DiskGuard = ReturnType<typeof createDiskGuard>

/** Creates a guard. Concurrent callers share one query of the system. */
export function createDiskGuard({
  folder,
  minFreeBytes,
  clock,
  readFreeBytes: freeBytesOf = statFreeBytes,
  onChange,
}: DiskGuardOptions) {
  /** Last result of the system; undefined: it could not tell. */
  let freeBytes: number | undefined = Number.POSITIVE_INFINITY
  let writtenBytes = 0
  let queriedAtMs = Number.NEGATIVE_INFINITY
  // One query at a time: a hanging disk must not block the whole thread pool.
  let isLow = false
  let reportedLow = false
  let reportedAtMs = Number.NEGATIVE_INFINITY
  const writers = new Set<WalWriter>()

  /**
   * Whether `bytes` can be written without touching the reserve, by the system's last result and everything written
   * since.
   */
  const hasSpaceFor = (bytes: number): boolean => {
    if (minFreeBytes === 0) return true
    if (freeBytes === undefined) return false
    let left = freeBytes - writtenBytes - bytes
    for (const { walBytes } of writers) left -= walBytes
    return left >= minFreeBytes
  }

  const updateLow = (): boolean => {
    isLow = !hasSpaceFor(isLow ? enoughAfterLow(minFreeBytes) - minFreeBytes : 0)
    return isLow
  }

  const query = async (): Promise<void> => {
    // The result may or may not account for bytes written during the query, so these bytes stay counted.
    const countedBytes = writtenBytes
    freeBytes = await freeBytesOf(folder).catch(() => undefined)
    writtenBytes -= countedBytes
    queriedAtMs = clock.monotonicMs()
    if (updateLow())
      // An error is ignored here: the next write of this database reports it.
      for (const writer of writers)
        if (writer.walBytes >= MIN_CHECKPOINTED_WAL_BYTES) writer.checkpoint().catch(() => undefined)
    if (isLow !== reportedLow && queriedAtMs - reportedAtMs >= CHANGE_INTERVAL_MS) {
      reportedLow = isLow
      reportedAtMs = queriedAtMs
      onChange?.(isLow, freeBytes)
    }
  }

  const queryOnce = shareRun(query)

  /** Queries the system again. Does nothing, and returns undefined, when the last result is less than a second old. */
  const refresh = (): Promise<unknown> | undefined => {
    if (minFreeBytes === 0 || clock.monotonicMs() - queriedAtMs < STAT_TTL_MS) return undefined
    return queryOnce()
  }

  return {
    /**
     * True when less than the minimum is free, or when the system cannot tell, and then until more is free again:
     * emptying a log alone must not change the result. It may be a second old.
     */
    async isLow(): Promise<boolean> {
      await refresh()
      return updateLow()
    },
    refresh,
    hasSpaceFor,
    /** Subtracts written bytes from the free space. */
    countWritten(bytes: number): void {
      writtenBytes += bytes
    },
    /** Counts this database's log too, and truncates it when the disk is low. Returns the function that unregisters it. */
    register(writer: WalWriter): () => void {
      writers.add(writer)
      return () => void writers.delete(writer)
    },
  }
}

/** The guard of the data directory; logs when the service starts and stops refusing new mail. */
export const watchDisk = ({ dataDir, minFreeDisk }: Config, clock: Pick<Clock, 'monotonicMs'>, log: Log): DiskGuard =>
  createDiskGuard({
    folder: dataDir,
    minFreeBytes: minFreeDisk,
    clock,
    onChange: (isLow, freeBytes) => {
      const fields = { freeBytes, wantedBytes: minFreeDisk }
      if (!isLow) log.info(fields, 'disk has free space again: accepting new mail')
      else if (freeBytes === undefined) log.error(fields, 'cannot read free disk space: refusing new mail')
      else log.error(fields, 'free disk space below TASSIS_MIN_FREE_DISK: refusing new mail; see `tassis disk`')
    },
  })

async function statFreeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** Space of a file system; `availableBytes` is what unprivileged processes may use. */
export interface DiskSpace {
  readonly sizeBytes: number
  readonly availableBytes: number
}

/** Reads the space of the disk that holds the folder, or will hold it: it may not exist yet. */
export function readDiskSpace(folder: string): DiskSpace {
  try {
    const { bsize, blocks, bavail } = statfsSync(folder)
    return { sizeBytes: blocks * bsize, availableBytes: bavail * bsize }
  } catch (error) {
    const parent = dirname(resolve(folder))
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === folder) throw error
    return readDiskSpace(parent)
  }
}
