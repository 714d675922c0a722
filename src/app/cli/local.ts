/**
 * @module What commands read of the data themselves, over a connection of their own, so that they work with and without
 * a running service, and never write: `tassis audit`, the audit log of all accounts; `tassis disk`, what uses the disk and
 * what is deleted next; `tassis config`, the settings of this shell, never a secret.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { findAccount } from '#features/core/accounts/accounts.ts'
import { findAccountId } from '#features/core/accounts/rows.ts'
import { verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import { listNewestAuditEntries, toAuditLogWire } from '#features/core/audit-logs/read.ts'
import { measureDisk, readFileSystem } from '#features/lifecycle/retention/disk.ts'
import { readApplied, requireKnown } from '#platform/db/migrate.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { enoughAfterLow } from '#platform/disk/disk.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { requireReadable } from '#platform/replication/position.ts'
import { type Config, ConfigError, type LoadedConfig } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { explainCorruption, RESTORE_REMEDY, requireWritable } from '../create.ts'
import { migrations } from '../migrations.ts'
import { loadConfig, toSettingRecord } from '../settings.ts'
import { callService } from './api.ts'
import type { Command } from './command.ts'
import { type AccountOption, parseInstantOption, TIME_FORMS, UsageError } from './options.ts'
import { formatFields, formatPage, formatSize, type JsonOption, joinParagraphs, printResult } from './output.ts'

/**
 * Calls `use` with a read-only connection in its own read transaction. Throws ConfigError for a corrupt file, and for one
 * of another version.
 */
export function withSnapshot<T>({ dataDir }: Pick<Config, 'dataDir'>, use: (db: Database) => T): T {
  requireReadable(dataDir)
  const path = join(dataDir, 'tassis.db')
  const db = explainCorruption(path, RESTORE_REMEDY, () => openSnapshot(dataDir, path))
  try {
    // The corrupt page may be one that opening did not read.
    return explainCorruption(path, RESTORE_REMEDY, () => use(db))
  } finally {
    // Closing alone would keep the transaction, and its lock, until the statements are garbage collected.
    if (db.inTransaction) db.run('ROLLBACK')
    db.close()
  }
}

function openSnapshot(dataDir: string, path: string): Database {
  let db: Database
  try {
    db = openReadOnly(path)
  } catch (error) {
    // SQLite writes the index of its write-ahead log even to read.
    requireWritable(dataDir)
    throw error
  }
  db.run('PRAGMA temp_store = MEMORY')
  db.run('BEGIN')
  // The first read, which fixes the snapshot.
  const applied = readApplied(db)
  requireKnown(applied, migrations)
  if (applied.length < migrations.length)
    throw new ConfigError(
      'An older version of Tassis wrote the database; read it with that version, or start the service with this one, which upgrades it.',
    )
  return db
}

function verifyAudit(config: Config, expected: string | undefined) {
  const at = isoTime(systemClock.now())
  const found = withSnapshot(config, (db) => verifyAuditLog(db, expected))
  return {
    ok: found.brokenCount === 0 && found.hasExpected !== false,
    at,
    entries: found.entries,
    erased: found.erased,
    // Entries up to this position were deleted by retention; 0 if none.
    removed_up_to: found.removedUpTo,
    head: { id: found.headId, hash: found.headHash },
    expected: expected === undefined ? null : { hash: expected, found: found.hasExpected === true },
    broken_count: found.brokenCount,
    broken: found.broken.map(({ id: position, uuid: id, createdAt, reason }) => {
      return { position, id, created_at: isoTimeOrNull(createdAt), reason }
    }),
  }
}

const formatVerified = ({ broken, ok, ...found }: ReturnType<typeof verifyAudit>): string =>
  joinParagraphs(
    formatFields(found),
    formatPage({ data: broken }, 'position id created_at reason'),
    ok
      ? 'The log is unchanged. Store the hash elsewhere: `tassis audit verify --expect HASH` later checks that the log still contains it.'
      : 'The log was CHANGED.',
  )

interface ListOptions extends AccountOption {
  readonly action?: string | undefined
  readonly since?: string | undefined
  readonly limit: number
}

function listAudit(config: Config, { account, action, since, limit }: ListOptions) {
  const from = parseInstantOption('--since', since, systemClock.now())
  return withSnapshot(config, (db) => {
    const accountId = findAccountId({ config, db }, account)
    const entries = listNewestAuditEntries(db, accountId, { action, from }, limit + 1).map((entry) => {
      const owner = entry.accountId === null ? undefined : findAccount(config, db, entry.accountId)
      return {
        ...toAuditLogWire(entry, ''),
        position: entry.id,
        account_id: owner ? formatUuid(owner.uuid) : null,
        account: owner?.name ?? null,
      }
    })
    return { data: entries.slice(0, limit), has_more: entries.length > limit }
  })
}

export function addAuditCommands(program: Command): void {
  const add = program.group('audit', 'list or verify the audit log of all accounts')
  add('verify', 'verify the hash chain of the log; exit code 1 if an entry was changed, removed or inserted')
    .option('--expect <hash>', 'require the log to contain this hash from an earlier run')
    .local((config, { expect }: { expect?: string }) => {
      if (expect === undefined || /^[0-9a-f]{64}$/i.test(expect)) return verifyAudit(config, expect)
      throw new UsageError('--expect must be the 64 hexadecimal digits that `tassis audit verify` printed.')
    }, formatVerified)
  add('list', 'list the newest entries of all accounts')
    .accountFilter()
    .limit('entries', 50)
    .option('--action <action>', 'only this action, such as api_key.created')
    .option('--since <time>', `only entries at or after this time: ${TIME_FORMS}`)
    .local(listAudit, (page) =>
      formatPage(
        page,
        'created_at account action actor_type actor_id ip_address resource_type resource_id metadata',
        undefined,
        'No entries.',
      ),
    )
}

export function addDiskCommand(program: Command): void {
  program
    .add('disk', 'show what uses the disk, how long each kind of data is retained and what is deleted next')
    .local(readDisk, formatDisk)
}

const readDisk = (config: Config) => ({
  file_system: readFileSystem(config),
  ...withSnapshot(config, (db) => measureDisk(db, config, systemClock.now())),
})

/** Accounts per kind in the table, in addition to those above their share. */
const MAX_SHOWN = 3

function formatDisk({ file_system: disk, database, content, raw_mail, kinds, ...use }: ReturnType<typeof readDisk>) {
  const { groups, ...files } = database
  const groupBytes = Object.entries(groups).map(([group, bytes]) => [`${group}_bytes`, bytes] as const)
  const accounts = kinds.flatMap(({ kind, accounts: all }) =>
    all
      .filter(({ share_bytes: share }, index) => index < MAX_SHOWN || share !== null)
      .map((account) => ({ kind, ...account })),
  )
  return joinParagraphs(
    formatFields({ ...use, free_on_this_disk_bytes: disk.free_bytes }),
    disk.free_bytes < disk.wanted_free_bytes &&
      `New mail is refused until ${formatSize(enoughAfterLow(disk.wanted_free_bytes))} are free (TASSIS_MIN_FREE_DISK).`,
    `Database:\n${formatFields({ ...files, ...Object.fromEntries(groupBytes) }, 2)}`,
    formatPage({ data: content }, 'content_of bytes free_bytes', { content_of: ({ month }) => month }),
    formatPage({ data: raw_mail }, 'received_in bytes free_bytes', { received_in: ({ month }) => month }),
    // Within the hour, of accounts above their share.
    formatPage({ data: kinds }, 'kind used_bytes max_bytes max_days oldest_at goes_at deleted_now_before', {
      deleted_now_before: ({ over_before: at }) => at,
    }),
    formatPage({ data: accounts }, 'kind name id used_bytes share_bytes deleted_now_before', {
      deleted_now_before: ({ goes_before: at }) => at,
    }),
  )
}

export function addRetentionCommands(program: Command): void {
  const add = program.group('retention', 'delete expired and excess data')
  add('run', 'delete data beyond its retention or size limit now, as the service does every hour').answer(
    async ({ api }) => api.operator.runRetention(),
  )
}

/**
 * Lists the settings whose values in a running service on the same data differ from the values in this shell; empty
 * when no service answers. Skips secrets.
 */
async function findDifferingVariables({ config, report }: LoadedConfig): Promise<string[]> {
  const reply = await callService(config, (api) => api.operator.listSettings())
  // A service that refuses the call has another version; other commands report that.
  const values = new Map(reply.kind === 'ok' ? reply.value.data.map((row) => [row.variable, row.value]) : [])
  return report
    .filter(({ variable, value }) => value !== SECRET_PLACEHOLDER && (values.get(variable) ?? value) !== value)
    .map(({ variable }) => variable)
}

const SECRET_PLACEHOLDER = '(set)'

export function addConfigCommand(program: Command): void {
  program
    .add('config', 'show every setting, its value and its source')
    .option('--explain', 'also show the meaning and the allowed values of each')
    .action(async (options: JsonOption & { explain?: boolean }) => {
      const loaded = loadConfig()
      const differing = await findDifferingVariables(loaded)
      if (differing.length > 0)
        process.stderr.write(
          `The service running on ${loaded.config.dataDir} has other values for ${differing.join(', ')}. These are the settings of this shell:\n`,
        )
      printResult(options, { data: loaded.report.map(toSettingRecord) }, (page) =>
        options.explain
          ? page.data.map((setting) => formatFields(setting)).join('\n\n')
          : formatPage(page, 'setting from value', {
              setting: ({ variable }) => variable,
              // Not `-`, which is itself the value of some lists.
              value: ({ value }) => value || '(empty)',
              from: ({ source }) => source,
            }),
      )
    })
}
