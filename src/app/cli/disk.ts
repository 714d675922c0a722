/**
 * @module `tassis disk`: shows what uses the disk by kind and account, how long each kind is retained and what is
 * deleted next. Reads over its own connection, so it works with and without a running service. Never writes.
 * `tassis retention run`: deletes expired and excess data immediately, as the service does every hour.
 */
import { measureDisk, readFileSystem } from '#features/lifecycle/retention/disk.ts'
import type { AccountUsage, KindUsage } from '#features/lifecycle/retention/overview.ts'
import { enoughAfterLow } from '#platform/disk/disk.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { Command } from './command.ts'
import { type Columns, fields, formatFields, formatPage, formatSize, joinParagraphs } from './output.ts'
import { withSnapshot } from './snapshot.ts'

export function addDiskCommand(program: Command): void {
  program
    .add('disk', 'show what uses the disk, how long each kind of data is retained and what is deleted next')
    .local(readDisk, formatDisk)
}

const readDisk = (config: Config) => ({
  file_system: readFileSystem(config),
  ...withSnapshot(config, (db) => measureDisk(db, config, systemClock.now())),
})

type Disk = ReturnType<typeof readDisk>

const MONTHS = fields<Disk['content'][number]>()('bytes free_bytes')

function formatDisk({ file_system: disk, database, content, raw_mail: rawMail, kinds, ...use }: Disk): string {
  const { groups, ...files } = database
  const groupBytes = Object.entries(groups).map(([group, bytes]) => [`${group}_bytes`, bytes] as const)
  const { not_stored: notStored, ...sizes } = use
  const isLow = disk.free_bytes < disk.wanted_free_bytes
  const accounts = kinds.flatMap(({ kind, accounts: all }) =>
    all
      .filter(({ share_bytes: share }, index) => index < MAX_SHOWN || share !== null)
      .map((account) => ({ kind, ...account })),
  )
  return joinParagraphs(
    formatFields({ ...sizes, free_on_this_disk_bytes: disk.free_bytes }),
    isLow &&
      `New mail is refused until ${formatSize(enoughAfterLow(disk.wanted_free_bytes))} are free (TASSIS_MIN_FREE_DISK).`,
    `Database:\n${formatFields({ ...files, ...Object.fromEntries(groupBytes) }, 2)}`,
    formatPage({ data: content }, '', { 'CONTENT OF': ({ month }) => month, ...MONTHS }),
    formatPage({ data: rawMail }, '', { 'RECEIVED IN': ({ month }) => month, ...MONTHS }),
    formatPage({ data: kinds }, '', KINDS),
    formatPage({ data: accounts }, '', ACCOUNTS),
    ...notStored.map(
      ({ id, name, messages }) =>
        `Dropped: ${messages} messages to ${name} (${id}), because no route matched and the domain had too much of such mail.`,
    ),
  )
}

const KINDS: Columns<KindUsage> = {
  ...fields<KindUsage>()('kind used_bytes max_bytes max_days oldest_at goes_at'),
  /** The oldest of accounts above their share, within the hour. */
  'DELETED NOW BEFORE': ({ over_before: at }) => at,
}

/** Accounts per kind in the table, in addition to those above their share. */
const MAX_SHOWN = 3

const ACCOUNTS: Columns<AccountUsage & { readonly kind: string }> = {
  ...fields<AccountUsage & { readonly kind: string }>()('kind name id used_bytes share_bytes'),
  'DELETED NOW BEFORE': ({ goes_before: at }) => at,
}

export function addRetentionCommands(program: Command): void {
  const retention = program.command('retention').description('delete expired and excess data')
  retention
    .add('run', 'delete data beyond its retention or size limit now, as the service does every hour')
    .answer(async ({ api }) => api.operator.runRetention())
}
