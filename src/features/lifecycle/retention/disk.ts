/** @module What uses the disk, how long each kind of data is retained and what is deleted next. Reads only. */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { isOpen, STATUSES, statusCode } from '#features/sending/queue/status.ts'
import { readDiskSpace } from '#platform/disk/disk.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { days, type Millis } from '#platform/units.ts'
import { BUDGETED, type BudgetedKind, computeAgeCutoffs, measureBudgets, readMaxAges } from './budgets.ts'
import { type Cut, findCuts, type Measurement, measureUse, sumBytes } from './cuts.ts'
import { HAS_CONTENT } from './holdings.ts'
import { type MonthUse, measureAllocated } from './measure.ts'
import { readCursor } from './scan.ts'

export type DiskUse = ReturnType<typeof measureDisk>

/** The file system of the data directory, as it is now; free bytes are those for an unprivileged process. */
export function readFileSystem({ dataDir, minFreeDisk }: Pick<Config, 'dataDir' | 'minFreeDisk'>) {
  const { sizeBytes, availableBytes } = readDiskSpace(dataDir)
  return { size_bytes: sizeBytes, free_bytes: availableBytes, wanted_free_bytes: minFreeDisk }
}

/**
 * Measures the data directory, as du(1) counts it. Reads whole tables, so it runs in a Worker or a command.
 * @param db in a read transaction
 */
export function measureDisk(db: Database, config: Config, now: Millis) {
  const { dataDir } = config
  const measureFiles = (...names: string[]): number =>
    names.reduce((sum, name) => sum + measureAllocated(join(dataDir, name)), 0)
  const measured = measureUse(db, dataDir)
  const kinds = listKindUsages(db, config, measured, now)
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
    database: {
      file_bytes: fileBytes,
      wal_bytes: walBytes,
      free_bytes: measured.database.freeBytes,
      groups: { ...measured.database.groups },
    },
    content: measured.content.map(toMonthBytes),
    raw_mail: measured.rawMail.map(toMonthBytes),
    captures_bytes: captures,
    imports_bytes: imports,
    other_bytes: Math.max(0, total - fileBytes - walBytes - months - captures - imports),
    kinds,
  }
}

const toMonthBytes = ({ month, bytes, freeBytes }: MonthUse) => ({ month, bytes, free_bytes: freeBytes })

export type RetainedKind = BudgetedKind | 'audit'

/** As in the operator's routes, which describe the fields. */
export type AccountUsage = ReturnType<typeof listAccountUsages>[number]

/** Accounts shown per kind, besides those that lose data. */
const MAX_ACCOUNTS = 10

const ENDED_STATUSES = STATUSES.filter((status) => !isOpen(status))
  .map(statusCode)
  .join(', ')

/**
 * The oldest row of each kind.
 * @param db in a read transaction
 */
export function findOldest(db: Database): Readonly<Record<RetainedKind, Millis | undefined>> {
  const findFirst = (sql: string, ...values: number[]): Millis | undefined =>
    db.query<{ at: Millis | null }, number[]>(sql).get(...values)?.at ?? undefined
  // Open rows stay, and rows before the cursor are already removed.
  const findOldestEnded = (after: number, where = 'TRUE') =>
    findFirst(
      `SELECT created_at AS at FROM emails WHERE id > ? AND status IN (${ENDED_STATUSES}) AND (${where}) ORDER BY id LIMIT 1`,
      after,
    )
  return {
    content: findOldestEnded(readCursor(db, 'content'), HAS_CONTENT),
    logs: findOldestEnded(readCursor(db, 'emails')),
    events: findFirst(
      'SELECT min((SELECT at FROM events e WHERE e.account_id = s.account_id ORDER BY seq LIMIT 1)) AS at FROM event_sequences s',
    ),
    inbound: findFirst(
      `SELECT min(at) AS at FROM (SELECT * FROM (SELECT created_at AS at FROM inbound_emails ORDER BY id LIMIT 1)
       UNION ALL SELECT * FROM (SELECT created_at FROM mailbox_messages ORDER BY id LIMIT 1))`,
    ),
    audit: findFirst('SELECT created_at AS at FROM audit_logs ORDER BY id LIMIT 1'),
  }
}

/**
 * What is stored of each kind, for how long, and what is removed next.
 * @param db in the same read transaction as the measurement
 */
export function listKindUsages(db: Database, config: Config, measured: Measurement, now: Millis) {
  const budgets = measureBudgets(config)
  const cuts = Map.groupBy(findCuts(measured, budgets), (cut) => cut.kind)
  const ages = readMaxAges(config)
  const aged = computeAgeCutoffs(config, now)
  const oldest = findOldest(db)
  const describeAge = (kind: RetainedKind, maxDays: number) => {
    const oldestAt = oldest[kind] ?? null
    const goesAt = oldestAt === null ? null : oldestAt + days(maxDays)
    return { kind, max_days: maxDays, oldest_at: isoTimeOrNull(oldestAt), goes_at: isoTimeOrNull(goesAt) }
  }
  return [
    ...BUDGETED.map((kind) => {
      const kindCuts = cuts.get(kind) ?? []
      const before = Math.max(0, ...kindCuts.map((cut) => cut.before ?? 0))
      return {
        ...describeAge(kind, ages[kind]),
        used_bytes: Math.round(sumBytes(measured.kinds[kind].accounts)),
        max_bytes: budgets[kind],
        over_before: before > aged[kind] ? isoTime(before) : null,
        accounts: listAccountUsages(db, measured, kind, kindCuts),
      }
    }),
    {
      ...describeAge('audit', config.auditDays),
      used_bytes: measured.database.groups.audit,
      max_bytes: null,
      over_before: null,
      accounts: [] as AccountUsage[],
    },
  ]
}

/** The accounts that use most, and all that lose data in the next run; the largest first. */
function listAccountUsages(db: Database, measured: Measurement, kind: BudgetedKind, cuts: readonly Cut[]) {
  const account = db.query<{ uuid: UuidBytes; name: string }, [number]>('SELECT uuid, name FROM accounts WHERE id = ?')
  return [...measured.kinds[kind].accounts]
    .sort(([, a], [, b]) => b.bytes - a.bytes)
    .map(([accountId, use]) => ({
      use,
      cut: cuts.find((cut) => cut.accountId === accountId),
      row: account.get(accountId),
    }))
    .filter(({ cut }, index) => index < MAX_ACCOUNTS || cut)
    .flatMap(({ use: { bytes, keptBytes }, cut, row }) =>
      row
        ? {
            id: formatUuid(row.uuid),
            name: row.name,
            used_bytes: Math.round(bytes),
            kept_bytes: Math.round(keptBytes),
            share_bytes: cut ? Math.round(cut.shareBytes) : null,
            goes_before: isoTimeOrNull(cut?.before ?? null),
          }
        : [],
    )
}
