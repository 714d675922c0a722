/**
 * @module What uses the disk, how long each kind of data is retained and what is deleted next: for `tassis disk` and
 * the operator's routes. Reads only.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { measureUse } from '#features/lifecycle/retention/budgets.ts'
import { listDiskLimitWarnings } from '#features/lifecycle/retention/disk-limit.ts'
import { type Group, type MonthUse, measureAllocated } from '#features/lifecycle/retention/measure.ts'
import {
  type AccountShare,
  type KindOverview,
  listKindOverviews,
  listNotStored,
  type RetainedKind,
} from '#features/lifecycle/retention/overview.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { readDiskSpace } from '#platform/disk-space.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'

export interface DiskUsage {
  readonly at: string
  readonly data_dir: string
  /** Size of the data directory, as du(1) counts it. */
  readonly total_bytes: number
  /**
   * The file system of the data directory; free bytes are those for an unprivileged process. New mail is refused when
   * fewer than `wanted_free_bytes` are free.
   */
  readonly file_system: { readonly size_bytes: number; readonly free_bytes: number; readonly wanted_free_bytes: number }
  readonly database: {
    readonly file_bytes: number
    /** Size of the write-ahead log and its index. */
    readonly wal_bytes: number
    /** Size of free pages, which the next rows reuse. */
    readonly free_bytes: number
    readonly groups: Readonly<Record<Group, number>>
  }
  readonly content: readonly MonthBytes[]
  readonly raw_mail: readonly MonthBytes[]
  readonly captures_bytes: number
  readonly imports_bytes: number
  /** Everything else in the data directory. */
  readonly other_bytes: number
  readonly kinds: readonly KindUsage[]
  /** Problems of the configured sizes. */
  readonly warnings: readonly string[]
  /** Messages dropped because no route matched and their domain had reached its limit of such mail. */
  readonly not_stored: readonly NotStored[]
}

interface NotStored {
  readonly id: string
  readonly name: string
  readonly messages: number
}

export interface MonthBytes {
  readonly month: string
  readonly bytes: number
  readonly free_bytes: number
}

export interface KindUsage {
  readonly kind: RetainedKind
  readonly used_bytes: number
  /** Null if there is no limit. */
  readonly max_bytes: number | null
  readonly max_days: number
  readonly oldest_at: string | null
  readonly goes_at: string | null
  readonly over_before: string | null
  /** The accounts that use most space, and all above their share. */
  readonly accounts: readonly AccountUsage[]
}

export interface AccountUsage {
  readonly id: string
  readonly name: string
  readonly used_bytes: number
  /** Bytes that are deleted only by age, never for lack of space: unread messages, open mail. */
  readonly kept_bytes: number
  /** Its fair share; null if it uses no more than that. */
  readonly share_bytes: number | null
  /** The next run deletes the account's data from before this time; null if it deletes none. */
  readonly goes_before: string | null
}

/** The file system of the data directory, as it is now. */
export function readFileSystem({
  dataDir,
  minFreeDisk,
}: Pick<Config, 'dataDir' | 'minFreeDisk'>): DiskUsage['file_system'] {
  const { sizeBytes, availableBytes } = readDiskSpace(dataDir)
  return { size_bytes: sizeBytes, free_bytes: availableBytes, wanted_free_bytes: minFreeDisk }
}

/**
 * Measures the data directory. Reads whole tables, so it runs in a Worker or a command.
 * @param db in a read transaction
 */
export function measureDisk(db: Database, config: Config, now: Millis): DiskUsage {
  const { dataDir } = config
  const measureFiles = (...names: string[]): number =>
    names.reduce((sum, name) => sum + measureAllocated(join(dataDir, name)), 0)
  const measured = measureUse(db, dataDir)
  const kept = listKindOverviews(db, config, measured, now)
  const notStored = listNotStored(db)
  const { database } = measured
  const fileBytes = measureFiles('tassis.db')
  const walBytes = measureFiles('tassis.db-wal', 'tassis.db-shm')
  const captures = measureFiles('capture.db', 'capture.db-wal', 'capture.db-shm')
  const imports = measureFiles('imports')
  const months = [...measured.content, ...measured.rawMail].reduce((sum, { bytes }) => sum + bytes, 0)
  const total = measureAllocated(dataDir)
  return {
    at: isoTime(now),
    data_dir: dataDir,
    total_bytes: total,
    file_system: readFileSystem(config),
    database: {
      file_bytes: fileBytes,
      wal_bytes: walBytes,
      free_bytes: database.freeBytes,
      groups: database.groups,
    },
    content: measured.content.map(toMonthBytes),
    raw_mail: measured.rawMail.map(toMonthBytes),
    captures_bytes: captures,
    imports_bytes: imports,
    other_bytes: Math.max(0, total - fileBytes - walBytes - months - captures - imports),
    kinds: kept.map(toKindUsage),
    warnings: listDiskLimitWarnings(config),
    not_stored: notStored.map(({ id, name, messages }) => ({ id: formatUuid(id), name, messages })),
  }
}

const toMonthBytes = ({ month, bytes, freeBytes }: MonthUse): MonthBytes => ({ month, bytes, free_bytes: freeBytes })

const toKindUsage = (kept: KindOverview): KindUsage => ({
  kind: kept.kind,
  used_bytes: kept.usedBytes,
  max_bytes: kept.maxBytes === 0 ? null : kept.maxBytes,
  max_days: kept.maxDays,
  oldest_at: isoTimeOrNull(kept.oldestAt ?? null),
  goes_at: isoTimeOrNull(kept.goesAt ?? null),
  over_before: isoTimeOrNull(kept.overBefore ?? null),
  accounts: kept.accounts.map(toAccountUsage),
})

const toAccountUsage = ({ id, name, usedBytes, keptBytes, shareBytes, goesBefore }: AccountShare): AccountUsage => ({
  id: formatUuid(id),
  name,
  used_bytes: usedBytes,
  kept_bytes: keptBytes,
  share_bytes: shareBytes === undefined ? null : Math.round(shareBytes),
  goes_before: isoTimeOrNull(goesBefore ?? null),
})
