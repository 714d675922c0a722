/**
 * @module Bounds the sizes of retention to the disk: sizes that it cannot hold would let it fill up and refuse new mail
 * before anything is removed. They are left as configured while the data use little of the disk, so that a small disk
 * costs nothing before it must. Reads only.
 */
import { statfsSync } from 'node:fs'
import type { Config } from '#platform/config.ts'
import { formatSize } from '#platform/setting-kinds.ts'
import { GiB, MiB } from '#platform/units.ts'
import { type Budgets, readBudgets } from './budgets.ts'
import { measureAllocated } from './measure.ts'

/** The sizes hold as configured up to this part of what the disk can hold, and are bounded to it from there on. */
const FULL_FRACTION = 0.8

export interface DiskLimit {
  /** What the disk can hold of ours, less the reserve. */
  readonly capacityBytes: number
  /** What the data folder uses of it. */
  readonly usedBytes: number
}

/** Of a file system; available: to a process without privileges. */
interface DiskSpace {
  readonly sizeBytes: number
  readonly availableBytes: number
}

function readDiskSpace(folder: string): DiskSpace {
  const { bsize, blocks, bavail } = statfsSync(folder)
  return { sizeBytes: blocks * bsize, availableBytes: bavail * bsize }
}

/** Walks the data folder, so it is for Workers and commands. */
export function measureDiskLimit({ dataDir, minFreeDisk }: Pick<Config, 'dataDir' | 'minFreeDisk'>): DiskLimit {
  const usedBytes = measureAllocated(dataDir)
  return { capacityBytes: computeCapacity(readDiskSpace(dataDir), usedBytes, minFreeDisk), usedBytes }
}

/**
 * What others store on the disk lowers the capacity as long as new mail is accepted, so that it goes on being accepted.
 * Once mail is refused, only the operator can help: others that fill the disk on and on must not cost all data.
 */
export function computeCapacity(
  { sizeBytes, availableBytes }: DiskSpace,
  usedBytes: number,
  minFreeDisk: number,
): number {
  const isRefusing = availableBytes < minFreeDisk
  return subtractReserve(isRefusing ? sizeBytes : usedBytes + availableBytes, minFreeDisk)
}

/** A reserve of most of the disk is a mistake, for which no data may go. */
const subtractReserve = (bytes: number, minFreeDisk: number): number => Math.max(bytes - minFreeDisk, bytes / 2)

/**
 * The sizes that hold: none above what the disk can hold, and once it is nearly used, not together either. 0 stays: no
 * bound.
 */
export function limitToDisk(budgets: Budgets, { capacityBytes, usedBytes }: DiskLimit): Budgets {
  const fullBytes = capacityBytes * FULL_FRACTION
  const fraction = usedBytes > fullBytes ? Math.min(1, fullBytes / sumBudgets(budgets)) : 1
  const limit = (bytes: number): number => Math.floor(Math.min(bytes * fraction, capacityBytes))
  return {
    content: limit(budgets.content),
    events: limit(budgets.events),
    inbound: limit(budgets.inbound),
    logs: limit(budgets.logs),
  }
}

const sumBudgets = ({ content, events, inbound, logs }: Budgets): number => content + events + inbound + logs

/** At most one sentence, which says what the sizes are together and what the disk can hold. */
export function listDiskLimitWarnings(
  config: Pick<Config, 'dataDir' | 'minFreeDisk'> & Parameters<typeof readBudgets>[0],
  capacityBytes = subtractReserve(readDiskSpace(config.dataDir).sizeBytes, config.minFreeDisk),
): readonly string[] {
  const sum = sumBudgets(readBudgets(config))
  if (sum <= capacityBytes) return []
  return [
    `TASSIS_CONTENT_MAX_BYTES, TASSIS_EVENTS_MAX_BYTES, TASSIS_INBOUND_MAX_BYTES and TASSIS_LOGS_MAX_BYTES are ${formatBytes(sum)} together, and the disk can hold ${formatBytes(capacityBytes)} (its size less TASSIS_MIN_FREE_DISK): once the data use ${FULL_FRACTION * 100} % of that, the sizes are lowered in proportion to fit. Set smaller ones, or use a larger disk.`,
  ]
}

/** `69.9GiB`; exact where it is a whole number of them. */
const formatBytes = (bytes: number): string =>
  bytes >= GiB ? `${Number((bytes / GiB).toFixed(1))}GiB` : formatSize(Math.floor(bytes / MiB) * MiB)
