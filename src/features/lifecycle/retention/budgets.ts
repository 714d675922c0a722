/** @module The kinds of data that retention removes, with their maximum ages and sizes. */

import { type DiskSpace, readDiskSpace } from '#platform/disk/disk.ts'
import type { Config } from '#platform/settings/config.ts'
import { days, type Millis } from '#platform/units.ts'
import { measureAllocated } from './measure.ts'

/** Kinds with a budget. */
export const BUDGETED = ['content', 'events', 'inbound', 'logs'] as const
export type BudgetedKind = (typeof BUDGETED)[number]
export type ByKind<T> = Readonly<Record<BudgetedKind, T>>

export const mapKinds = <T>(value: (kind: BudgetedKind) => T): ByKind<T> => ({
  content: value('content'),
  events: value('events'),
  inbound: value('inbound'),
  logs: value('logs'),
})

/** Maximum bytes of each kind. */
export type Budgets = ByKind<number>

/** How the size of all data is divided. */
const SIXTEENTHS: Budgets = { content: 5, events: 2, inbound: 4, logs: 5 }

/** Contacts, histories, the write-ahead log and free pages need the rest of the disk. */
const DISK_FRACTION = 0.8

type SizeSettings = Pick<Config, 'dataDir' | 'minFreeDisk' | 'dataMaxBytes'>

/** The budgets on this disk now. Scans the data folder, so only Workers and commands may call it. */
export const measureBudgets = (settings: SizeSettings): Budgets =>
  computeBudgets(readDiskSpace(settings.dataDir), measureAllocated(settings.dataDir), settings)

/**
 * Larger budgets than the disk would let it fill up, and new mail be rejected, before anything is removed. While new
 * mail is accepted, other data on the disk lowers them, so that mail stays accepted. Once mail is rejected, other data
 * no longer lowers them: only the operator can help then, and other data that keeps growing must not displace all of
 * ours. A reserve above half of the disk is a mistake that must not cost data.
 */
export function computeBudgets(
  { sizeBytes, availableBytes }: DiskSpace,
  usedBytes: number,
  { minFreeDisk, dataMaxBytes }: Omit<SizeSettings, 'dataDir'>,
): Budgets {
  const bytes = availableBytes < minFreeDisk ? sizeBytes : usedBytes + availableBytes
  const diskBytes = Math.max(bytes - minFreeDisk, bytes / 2) * DISK_FRACTION
  const allBytes = dataMaxBytes === 0 ? diskBytes : Math.min(dataMaxBytes, diskBytes)
  return mapKinds((kind) => Math.floor((allBytes * SIXTEENTHS[kind]) / 16))
}

export const readMaxAges = (config: Config): ByKind<number> => mapKinds((kind) => config[`${kind}Days`])

/** The time before which a kind is removed for its age. */
export const computeAgeCutoffs = (config: Config, now: Millis): ByKind<Millis> => {
  const ages = readMaxAges(config)
  return mapKinds((kind) => now - days(ages[kind]))
}
