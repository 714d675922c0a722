/**
 * @module `tassis disk`: shows what uses the disk by kind and account, how long each kind is retained and what is
 * deleted next. Reads over its own connection, so it works with and without a running service. Never writes.
 * `tassis retention run`: deletes expired and excess data immediately, as the service does every hour.
 */
import { type DiskUse, measureDisk, readFileSystem } from '#features/lifecycle/retention/disk.ts'
import type { ServerDisk } from '#features/lifecycle/retention/disk-model.ts'
import { GROUPS, type Group } from '#features/lifecycle/retention/measure.ts'
import type { AccountUsage, KindUsage, RetainedKind } from '#features/lifecycle/retention/overview.ts'
import { enoughAfterLow } from '#platform/disk/disk.ts'
import { formatRelativeTime } from '#platform/text.ts'
import { type Millis, systemClock } from '#platform/time/clock.ts'
import { loadConfig } from '../settings.ts'
import { requireData } from './call.ts'
import type { Command } from './command.ts'
import type { JsonOption } from './options.ts'
import { formatCount, formatSize, formatTable, formatUtc, printResult, toPrintable } from './output.ts'
import { withSnapshot } from './snapshot.ts'

export function addDiskCommand(program: Command): void {
  program
    .add('disk', 'show what uses the disk, how long each kind of data is retained and what is deleted next')
    .action((options: JsonOption) => {
      const { config } = loadConfig()
      requireData(config)
      printResult(
        options,
        {
          file_system: readFileSystem(config),
          ...withSnapshot(config, (db) => measureDisk(db, config, systemClock.now())),
        },
        (use) => formatDisk(use, systemClock.now()),
      )
    })
}

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

function formatDisk(use: DiskUse & Pick<ServerDisk, 'file_system'>, now: Millis): string {
  const { database, file_system: disk } = use
  const line = (name: string, bytes: number, indent = 1): string[] => [
    `${'  '.repeat(indent)}${name}`,
    formatSize(bytes),
  ]
  const rows = [
    line(`${use.data_dir}`, use.total_bytes, 0),
    line('database', database.file_bytes + database.wal_bytes),
    ...GROUPS.filter((group) => database.groups[group] > 0).map((group) =>
      line(GROUP_NAMES[group], database.groups[group], 2),
    ),
    line('free, for new rows', database.free_bytes, 2),
    line('write-ahead log', database.wal_bytes, 2),
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
      ? [
          '',
          `New mail is refused until ${formatSize(enoughAfterLow(disk.wanted_free_bytes))} are free (TASSIS_MIN_FREE_DISK).`,
        ]
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

function formatMonths(name: string, all: DiskUse['content']): string[][] {
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

export function addRetentionCommands(program: Command): void {
  const retention = program.command('retention').description('delete expired and excess data')
  retention.add('run', 'delete data beyond its retention or size limit now, as the service does every hour').answer(
    async ({ api }) => api.operator.runRetention(),
    ({ data: { content, events, inbound, logs, audit } }) =>
      `Content removed of ${formatCount(content, 'email')}.\nRemoved: ${formatCount(logs, 'email')}, ${formatCount(events, 'event')}, ${formatCount(inbound, 'received message')}, ${audit === 1 ? '1 entry' : `${audit} entries`} of the audit log.`,
  )
}
