/**
 * @module Limits the sizes of retention to the disk: larger sizes would let the disk fill up, and new mail be rejected,
 * before anything is removed. Configured sizes apply while the data use little of the disk, so a small disk loses no
 * data early. Reads only.
 */

import { type DiskSpace, readDiskSpace, subtractReserve } from '#platform/disk/disk-space.ts'
import type { Config } from '#platform/settings/config.ts'
import { formatSize } from '#platform/settings/setting-kinds.ts'
import { GiB, MiB } from '#platform/units.ts'
import { type Budgets, mapKinds, readBudgets } from './budgets.ts'
import { measureAllocated } from './measure.ts'

/** Up to this fraction of the disk's capacity the configured sizes apply; beyond it they are limited. */
const FULL_FRACTION = 0.8

export interface DiskLimit {
  /** How much of our data the disk can hold, less the reserve. */
  readonly capacityBytes: number
  /** How much of the capacity the data folder uses. */
  readonly usedBytes: number
}

/** Scans the data folder, so only Workers and commands may call it. */
export function measureDiskLimit({ dataDir, minFreeDisk }: Pick<Config, 'dataDir' | 'minFreeDisk'>): DiskLimit {
  const usedBytes = measureAllocated(dataDir)
  return { capacityBytes: computeCapacity(readDiskSpace(dataDir), usedBytes, minFreeDisk), usedBytes }
}

/**
 * While new mail is accepted, other data on the disk lowers the capacity, so that mail stays accepted. Once mail is
 * rejected, other data no longer lowers it: only the operator can help then, and other data that keeps growing must not
 * displace all of ours.
 */
export function computeCapacity(
  { sizeBytes, availableBytes }: DiskSpace,
  usedBytes: number,
  minFreeDisk: number,
): number {
  const isRefusing = availableBytes < minFreeDisk
  return subtractReserve(isRefusing ? sizeBytes : usedBytes + availableBytes, minFreeDisk)
}

/** The effective sizes: each at most the capacity, and all together once the disk is nearly full. 0 stays: no limit. */
export function limitToDisk(budgets: Budgets, { capacityBytes, usedBytes }: DiskLimit): Budgets {
  const fullBytes = capacityBytes * FULL_FRACTION
  const fraction = usedBytes > fullBytes ? Math.min(1, fullBytes / sumBudgets(budgets)) : 1
  return mapKinds((kind) => Math.floor(Math.min(budgets[kind] * fraction, capacityBytes)))
}

const sumBudgets = ({ content, events, inbound, logs }: Budgets): number => content + events + inbound + logs

/** At most one sentence: the sum of the sizes, and what the disk can hold. */
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

/** `69.9GiB`; exact for whole numbers. */
const formatBytes = (bytes: number): string =>
  bytes >= GiB ? `${Number((bytes / GiB).toFixed(1))}GiB` : formatSize(Math.floor(bytes / MiB) * MiB)
