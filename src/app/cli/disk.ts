/**
 * @module `tassis disk`: shows what uses the disk by kind and account, how long each kind is retained and what is
 * deleted next. Reads over its own connection, so it works with and without a running service. Never writes.
 */
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { measureUse } from '#features/lifecycle/retention/budgets.ts'
import { listDiskLimitWarnings } from '#features/lifecycle/retention/disk-limit.ts'
import { GROUPS, type Group, type MonthUse, measureAllocated } from '#features/lifecycle/retention/measure.ts'
import {
  type AccountShare,
  type KindOverview,
  listKindOverviews,
  listNotStored,
  type RetainedKind,
} from '#features/lifecycle/retention/overview.ts'
import { type Millis, systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { requireData } from './call.ts'
import { type JsonOption, withJson } from './options.ts'
import { formatCount, formatRelativeTime, formatTable, formatUtc, printResult, toPrintable } from './output.ts'
import { withSnapshot } from './snapshot.ts'

interface DiskUsage {
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

interface MonthBytes {
  readonly month: string
  readonly bytes: number
  readonly free_bytes: number
}

interface KindUsage {
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

interface AccountUsage {
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

export function addDiskCommand(program: Command): void {
  withJson(
    program
      .command('disk')
      .description('show what uses the disk, how long each kind of data is retained and what is deleted next'),
  ).action((options: JsonOption) => {
    const { config } = loadConfig()
    requireData(config)
    printResult(options, measureDisk(config, systemClock.now()), (use) => formatDisk(use, systemClock.now()))
  })
}

/** Measures the data directory. */
export function measureDisk(config: Config, now: Millis): DiskUsage {
  const { dataDir } = config
  const measureFiles = (...names: string[]): number =>
    names.reduce((sum, name) => sum + measureAllocated(join(dataDir, name)), 0)
  const { measured, kept, notStored } = withSnapshot(config, (db) => {
    const found = measureUse(db, dataDir)
    return { measured: found, kept: listKindOverviews(db, config, found, now), notStored: listNotStored(db) }
  })
  const { database } = measured
  const fileBytes = measureFiles('tassis.db')
  const walBytes = measureFiles('tassis.db-wal', 'tassis.db-shm')
  const captures = measureFiles('capture.db', 'capture.db-wal', 'capture.db-shm')
  const imports = measureFiles('imports')
  const months = [...measured.content, ...measured.rawMail].reduce((sum, { bytes }) => sum + bytes, 0)
  const total = measureAllocated(dataDir)
  const { bsize, blocks, bavail } = statfsSync(dataDir)
  return {
    at: isoTime(now),
    data_dir: dataDir,
    total_bytes: total,
    file_system: { size_bytes: blocks * bsize, free_bytes: bavail * bsize, wanted_free_bytes: config.minFreeDisk },
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

const GROUP_NAMES: Readonly<Record<Group, string>> = {
  logs: 'emails and their status',
  events: 'event log',
  figures: 'counters and daily statistics',
  webhooks: 'webhooks and their history',
  contacts: 'contacts and suppressions',
  inbound: 'received mail',
  audit: 'audit log',
  other: 'everything else',
}

const KIND_NAMES: Readonly<Record<RetainedKind, string>> = {
  content: 'content of sent mail',
  events: 'event log',
  inbound: 'received mail',
  logs: 'emails',
  audit: 'audit log',
}

function formatDisk(use: DiskUsage, now: Millis): string {
  const { database, file_system: disk } = use
  const line = (name: string, bytes: number, indent = 1): string[] => [
    `${'  '.repeat(indent)}${name}`,
    formatSize(bytes),
  ]
  const rows = [
    line(`${use.data_dir}`, use.total_bytes, 0),
    line('database', database.file_bytes),
    ...GROUPS.filter((group) => database.groups[group] > 0).map((group) =>
      line(GROUP_NAMES[group], database.groups[group], 2),
    ),
    line('free, for new rows', database.free_bytes, 2),
    line('write-ahead log', database.wal_bytes),
    ...formatMonths('content (bodies and attachments)', use.content),
    ...formatMonths('received messages, raw', use.raw_mail),
    line('captured messages', use.captures_bytes),
    line('waiting imports', use.imports_bytes),
    line('other files', use.other_bytes),
    line('free on this disk', disk.free_bytes, 0),
  ]
  return [
    formatTable(['USE', 'SIZE'], rows),
    ...(disk.free_bytes < disk.wanted_free_bytes
      ? ['', `New mail is refused until ${formatSize(disk.wanted_free_bytes)} are free (TASSIS_MIN_FREE_DISK).`]
      : []),
    '',
    formatTable(
      ['KIND', 'USED', 'LIMIT', 'RETENTION', 'OLDEST', 'DELETED NEXT'],
      use.kinds.map((kind) => [
        KIND_NAMES[kind.kind],
        formatSize(kind.used_bytes),
        kind.max_bytes === null ? 'none' : formatSize(kind.max_bytes),
        `${kind.max_days} days`,
        kind.oldest_at === null ? '-' : formatUtc(kind.oldest_at).slice(0, 10),
        formatNext(kind, now),
      ]),
    ),
    ...use.warnings.flatMap((warning) => ['', `Warning: ${warning}`]),
    ...formatAccounts(use.kinds),
    ...use.not_stored.map(
      ({ id, name, messages }) =>
        `Dropped: ${formatCount(messages, 'message')} to ${toPrintable(name)} (${id}), because no route matched and the domain had too much of such mail.`,
    ),
  ].join('\n')
}

/** Accounts per kind in the table, in addition to those above their share. */
const MAX_SHOWN = 3

function formatAccounts(kinds: readonly KindUsage[]): string[] {
  const rows = kinds.flatMap(({ kind, used_bytes: usedBytes, accounts }) =>
    accounts
      .filter(({ share_bytes: shareBytes }, index) => index < MAX_SHOWN || shareBytes !== null)
      .map((account) => [
        KIND_NAMES[kind],
        account.name,
        account.id,
        formatSize(account.used_bytes),
        `${Math.round((100 * account.used_bytes) / Math.max(1, usedBytes))} %`,
        account.share_bytes === null ? '-' : formatSize(account.share_bytes),
        formatShare(account),
      ]),
  )
  return rows.length === 0
    ? []
    : ['', formatTable(['KIND', 'ACCOUNT', 'ID', 'USED', 'PART', 'FAIR SHARE', 'DELETED NEXT'], rows)]
}

function formatShare({ share_bytes: shareBytes, goes_before: goesBefore }: AccountUsage): string {
  if (goesBefore !== null) return `its oldest, up to ${formatUtc(goesBefore)}, within the hour`
  return shareBytes === null ? '-' : 'nothing: the rest is unread or open'
}

function formatMonths(name: string, all: readonly MonthBytes[]): string[][] {
  const sum = all.reduce((bytes, month) => bytes + month.bytes, 0)
  return [[`  ${name}`, formatSize(sum)], ...all.map(({ month, bytes }) => [`    ${month}`, formatSize(bytes)])]
}

function formatNext({ goes_at: goesAt, over_before: overBefore }: KindUsage, now: Millis): string {
  if (overBefore !== null)
    return `over its limit: the oldest of accounts above their share, up to ${formatUtc(overBefore)}, within the hour`
  if (goesAt === null) return '-'
  const at = Date.parse(goesAt)
  return at <= now ? 'the oldest, within the hour' : `the oldest, ${formatRelativeTime(at, now)}`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Formats a size with at most three digits, such as `3.4 GiB`. */
export function formatSize(bytes: number): string {
  const step = Math.min(UNITS.length - 1, bytes < 1024 ? 0 : Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** step
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[step]}`
}
