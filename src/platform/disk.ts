/** @module Whether the disk of the data directory has room for new work. Asks the system in the thread pool; never frees or writes anything. */
import { statfs } from 'node:fs/promises'
import type { Clock } from './clock.ts'
import { minutes, seconds } from './units.ts'

export interface DiskGuard {
  /** True when less than the wanted bytes are free, or the system cannot say. The answer may be a second old. */
  isLow(): Promise<boolean>
}

export interface DiskGuardOptions {
  /** Any folder of the disk. */
  readonly folder: string
  /** 0: never low, and nothing is asked. */
  readonly minFreeBytes: number
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Bytes that an unprivileged process may still write. */
  readonly freeBytesOf?: (folder: string) => Promise<number>
  /** Called when the answer is another than the one told last, at most once a minute. `freeBytes`: undefined when the system cannot say. */
  readonly onChange?: (isLow: boolean, freeBytes: number | undefined) => void
}

/** How long an answer holds. */
const ANSWER_HOLDS_MS = seconds(1)
/** A disk at the very bound must not fill itself with messages. */
const TOLD_EVERY_MS = minutes(1)

/** A guard that asks at most once a second, however many wait for the answer. */
export function createDiskGuard({
  folder,
  minFreeBytes,
  clock,
  freeBytesOf = statFreeBytes,
  onChange,
}: DiskGuardOptions): DiskGuard {
  let answer = false
  let answeredAtMs = Number.NEGATIVE_INFINITY
  // One question at a time: a disk that hangs must not take the thread pool with it.
  let asked: Promise<boolean> | undefined
  let told = false
  let toldAtMs = Number.NEGATIVE_INFINITY

  const ask = async (): Promise<boolean> => {
    const freeBytes = await freeBytesOf(folder).catch(() => undefined)
    answer = freeBytes === undefined || freeBytes < minFreeBytes
    answeredAtMs = clock.monotonicMs()
    if (answer !== told && answeredAtMs - toldAtMs >= TOLD_EVERY_MS) {
      told = answer
      toldAtMs = answeredAtMs
      onChange?.(answer, freeBytes)
    }
    return answer
  }

  return {
    async isLow() {
      if (minFreeBytes === 0 || clock.monotonicMs() - answeredAtMs < ANSWER_HOLDS_MS) return answer
      asked ??= ask().finally(() => {
        asked = undefined
      })
      return asked
    },
  }
}

async function statFreeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}
