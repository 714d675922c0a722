/**
 * @module Checks whether the disk of the data directory has space for new work. Queries the system in the thread pool
 * at most once a second, and subtracts what was written since, so the result holds at each commit. Never frees or
 * writes anything itself.
 */
import { statfs } from 'node:fs/promises'
import type { Clock } from './clock.ts'
import { MiB, minutes, seconds } from './units.ts'

/** A database with a write-ahead log on the disk. */
export interface WalWriter {
  /** Size of the log. A checkpoint may need as much again before it can truncate it. */
  readonly walBytes: number
  /** Truncates the log. */
  checkpoint(): Promise<void>
}

export interface DiskGuard {
  /** True when less than the minimum is free, or the system cannot tell. May be a second old. */
  isLow(): Promise<boolean>
  /** Queries the system again; undefined when the last result is less than a second old. */
  refresh(): Promise<unknown> | undefined
  /**
   * Whether `bytes` can be written without touching the reserve, by the system's last result and everything written
   * since.
   */
  hasSpaceFor(bytes: number): boolean
  /** Subtracts written bytes from the free space. */
  countWritten(bytes: number): void
  /**
   * Counts this database's log too, and truncates it when the disk is low. Returns the function that unregisters it.
   */
  register(writer: WalWriter): () => void
}

export interface DiskGuardOptions {
  /** Any folder on the disk. */
  readonly folder: string
  /** 0: never low, and the system is never queried. */
  readonly minFreeBytes: number
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Bytes that an unprivileged process can still write. */
  readonly readFreeBytes?: (folder: string) => Promise<number>
  /** Called when the state changes, at most once a minute. `freeBytes`: undefined when the system cannot tell. */
  readonly onChange?: (isLow: boolean, freeBytes: number | undefined) => void
}

/** How long a result of the system stays valid. */
const STAT_TTL_MS = seconds(1)
/** A disk at the limit must not fill itself with log messages. */
const CHANGE_INTERVAL_MS = minutes(1)
/** Truncating a smaller log is not worth it. */
const MIN_CHECKPOINTED_WAL_BYTES = MiB

/** Creates a guard; concurrent callers share one query. */
export function createDiskGuard({
  folder,
  minFreeBytes,
  clock,
  readFreeBytes: freeBytesOf = statFreeBytes,
  onChange,
}: DiskGuardOptions): DiskGuard {
  /** Last result of the system; undefined: it could not tell. */
  let freeBytes: number | undefined = Number.POSITIVE_INFINITY
  let writtenBytes = 0
  let queriedAtMs = Number.NEGATIVE_INFINITY
  // One query at a time: a hanging disk must not block the whole thread pool.
  let pendingQuery: Promise<void> | undefined
  let reportedLow = false
  let reportedAtMs = Number.NEGATIVE_INFINITY
  const writers = new Set<WalWriter>()

  const hasSpaceFor = (bytes: number): boolean => {
    if (minFreeBytes === 0) return true
    if (freeBytes === undefined) return false
    let left = freeBytes - writtenBytes - bytes
    for (const { walBytes } of writers) left -= walBytes
    return left >= minFreeBytes
  }

  const query = async (): Promise<void> => {
    // The result may or may not account for bytes written during the query, so those stay counted.
    const countedBytes = writtenBytes
    freeBytes = await freeBytesOf(folder).catch(() => undefined)
    writtenBytes -= countedBytes
    queriedAtMs = clock.monotonicMs()
    const isLow = !hasSpaceFor(0)
    if (isLow)
      // The next write of this database reports the error.
      for (const writer of writers)
        if (writer.walBytes >= MIN_CHECKPOINTED_WAL_BYTES) writer.checkpoint().catch(() => undefined)
    if (isLow !== reportedLow && queriedAtMs - reportedAtMs >= CHANGE_INTERVAL_MS) {
      reportedLow = isLow
      reportedAtMs = queriedAtMs
      onChange?.(isLow, freeBytes)
    }
  }

  const refresh = (): Promise<void> | undefined => {
    if (minFreeBytes === 0 || clock.monotonicMs() - queriedAtMs < STAT_TTL_MS) return undefined
    pendingQuery ??= query().finally(() => {
      pendingQuery = undefined
    })
    return pendingQuery
  }

  return {
    async isLow() {
      await refresh()
      return !hasSpaceFor(0)
    },
    refresh,
    hasSpaceFor,
    countWritten(bytes) {
      writtenBytes += bytes
    },
    register(writer) {
      writers.add(writer)
      return () => void writers.delete(writer)
    },
  }
}

async function statFreeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}
