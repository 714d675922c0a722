/**
 * @module Whether the disk of the data directory has room for new work. Asks the system in the thread pool, at most once a second, and takes off what was
 * written since, so that the answer holds at each commit. Never frees or writes anything itself.
 */
import { statfs } from 'node:fs/promises'
import type { Clock } from './clock.ts'
import { MiB, minutes, seconds } from './units.ts'

/** Whoever keeps a write-ahead log on the disk. */
export interface WalWriter {
  /** Size of the log. A checkpoint may need as much again before it can empty it. */
  readonly walBytes: number
  /** Empties the log. */
  checkpoint(): Promise<void>
}

export interface DiskGuard {
  /** True when less than the wanted bytes are free, or the system cannot say. The answer of the system may be a second old. */
  isLow(): Promise<boolean>
  /** Asks the system again when its answer is a second old; undefined: it is younger. */
  refresh(): Promise<unknown> | undefined
  /** Whether `bytes` can be written without touching what is reserved, by the last answer of the system and all that was written since. */
  hasRoomFor(bytes: number): boolean
  /** Takes bytes that were written off what is free. */
  countWritten(bytes: number): void
  /** Counts the log of a database as well, and empties it when the disk is low. Returns the function that ends this. */
  register(writer: WalWriter): () => void
}

export interface DiskGuardOptions {
  /** Any folder of the disk. */
  readonly folder: string
  /** 0: never low, and nothing is asked. */
  readonly minFreeBytes: number
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Bytes that an unprivileged process may still write. */
  readonly readFreeBytes?: (folder: string) => Promise<number>
  /** Called when the answer is another than the one told last, at most once a minute. `freeBytes`: undefined when the system cannot say. */
  readonly onChange?: (isLow: boolean, freeBytes: number | undefined) => void
}

/** How long an answer holds. */
const STAT_TTL_MS = seconds(1)
/** A disk at the very bound must not fill itself with messages. */
const CHANGE_INTERVAL_MS = minutes(1)
/** Smaller logs are not worth emptying for. */
const MIN_CHECKPOINTED_WAL_BYTES = MiB

/** A guard that asks at most once a second, however many wait for the answer. */
export function createDiskGuard({
  folder,
  minFreeBytes,
  clock,
  readFreeBytes: freeBytesOf = statFreeBytes,
  onChange,
}: DiskGuardOptions): DiskGuard {
  /** As the system said last; undefined: it could not. */
  let freeBytes: number | undefined = Number.POSITIVE_INFINITY
  let writtenBytes = 0
  let answeredAtMs = Number.NEGATIVE_INFINITY
  // One question at a time: a disk that hangs must not take the thread pool with it.
  let asked: Promise<void> | undefined
  let told = false
  let toldAtMs = Number.NEGATIVE_INFINITY
  const writers = new Set<WalWriter>()

  const hasRoomFor = (bytes: number): boolean => {
    if (minFreeBytes === 0) return true
    if (freeBytes === undefined) return false
    let left = freeBytes - writtenBytes - bytes
    for (const { walBytes } of writers) left -= walBytes
    return left >= minFreeBytes
  }

  const ask = async (): Promise<void> => {
    // What is written while the system answers may be in its answer or not.
    const known = writtenBytes
    freeBytes = await freeBytesOf(folder).catch(() => undefined)
    writtenBytes -= known
    answeredAtMs = clock.monotonicMs()
    const isLow = !hasRoomFor(0)
    if (isLow)
      // What it fails with, the next write of this database is told.
      for (const writer of writers)
        if (writer.walBytes >= MIN_CHECKPOINTED_WAL_BYTES) writer.checkpoint().catch(() => undefined)
    if (isLow !== told && answeredAtMs - toldAtMs >= CHANGE_INTERVAL_MS) {
      told = isLow
      toldAtMs = answeredAtMs
      onChange?.(isLow, freeBytes)
    }
  }

  const refresh = (): Promise<void> | undefined => {
    if (minFreeBytes === 0 || clock.monotonicMs() - answeredAtMs < STAT_TTL_MS) return undefined
    asked ??= ask().finally(() => {
      asked = undefined
    })
    return asked
  }

  return {
    async isLow() {
      await refresh()
      return !hasRoomFor(0)
    },
    refresh,
    hasRoomFor,
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
