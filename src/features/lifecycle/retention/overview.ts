/**
 * @module Summarises for `tassis disk` what is stored since when, for which accounts, and what is removed next. Reads
 * only.
 */
import type { Database } from 'bun:sqlite'
import { UNROUTED_DROPPED_METRIC } from '#features/receiving/inbound/inbound-emails.ts'
import { isOpen, STATUSES, statusCode } from '#features/sending/queue/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import {
  BUDGETED,
  type BudgetedKind,
  type Cut,
  findCuts,
  findKindExcesses,
  type Measurement,
  readBudgets,
} from './budgets.ts'
import { computeAgeCutoffs, readMaxAges } from './cutoffs.ts'
import { limitToDisk, measureDiskLimit } from './disk-limit.ts'
import { HAS_CONTENT, UNOWNED } from './holdings.ts'
import { readCursor } from './scan.ts'

export type RetainedKind = BudgetedKind | 'audit'

export interface KindOverview {
  readonly kind: RetainedKind
  readonly usedBytes: number
  /** 0: no limit. */
  readonly maxBytes: number
  readonly maxDays: number
  /** Time of the oldest removable row; undefined if there is none. */
  readonly oldestAt: Millis | undefined
  /** When the oldest row is removed for its age; undefined if there is none. */
  readonly goesAt: Millis | undefined
  /** Set when over budget: the next run removes rows from before this time from accounts above their share. */
  readonly overBefore: Millis | undefined
  /** The accounts that use most, and all that lose data in the next run; the largest first. */
  readonly accounts: readonly AccountShare[]
}

/** What an account uses of a kind. */
export interface AccountShare {
  readonly id: UuidBytes
  readonly name: string
  readonly usedBytes: number
  /** Of this, bytes never removed for size: unread mailbox messages, and open mail. */
  readonly keptBytes: number
  /** Its fair share, if exceeded; otherwise undefined. */
  readonly shareBytes: number | undefined
  /** The next run removes rows from before this time; undefined if it removes none. */
  readonly goesBefore: Millis | undefined
}

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
export function listKindOverviews(db: Database, config: Config, measured: Measurement, now: Millis): KindOverview[] {
  const ages: Readonly<Record<RetainedKind, number>> = { ...readMaxAges(config), audit: config.auditDays }
  const limited = limitToDisk(readBudgets(config), measureDiskLimit(config))
  const budgets: Readonly<Record<RetainedKind, number>> = { ...limited, audit: 0 }
  const used: Readonly<Record<RetainedKind, number>> = { ...measured.use, audit: measured.database.groups.audit }
  const cuts = Map.groupBy(findCuts(measured, limited), (cut) => cut.kind)
  const aged = computeAgeCutoffs(config, now)
  const oldest = findOldest(db)
  const kinds: readonly RetainedKind[] = [...BUDGETED, 'audit']
  return kinds.map((kind) => {
    const oldestAt = oldest[kind]
    const kindCuts = kind === 'audit' ? [] : (cuts.get(kind) ?? [])
    const before = Math.max(0, ...kindCuts.map((cut) => cut.before ?? 0))
    return {
      kind,
      usedBytes: used[kind],
      maxBytes: budgets[kind],
      maxDays: ages[kind],
      oldestAt,
      goesAt: oldestAt === undefined ? undefined : oldestAt + days(ages[kind]),
      overBefore: kind !== 'audit' && before > aged[kind] ? before : undefined,
      accounts:
        kind === 'audit' ? [] : listAccountShares(db, measured, kind, { budget: budgets[kind], cuts: kindCuts }),
    }
  })
}

function listAccountShares(
  db: Database,
  measured: Measurement,
  kind: BudgetedKind,
  { budget, cuts }: { readonly budget: number; readonly cuts: readonly Cut[] },
): AccountShare[] {
  const excesses = new Map(findKindExcesses(measured, kind, budget).map((excess) => [excess.accountId, excess]))
  const goesBefore = new Map(cuts.map(({ accountId, before }) => [accountId, before]))
  const account = db.query<{ id: UuidBytes; name: string }, [number]>(
    'SELECT uuid AS id, name FROM accounts WHERE id = ?',
  )
  return [...measured.uses[kind]]
    .filter(([accountId]) => accountId !== UNOWNED)
    .sort(([, a], [, b]) => b.bytes - a.bytes)
    .filter(([accountId], index) => index < MAX_ACCOUNTS || excesses.has(accountId))
    .flatMap(([accountId, { bytes, keptBytes }]) => {
      const row = account.get(accountId)
      if (!row) return []
      return [
        {
          ...row,
          usedBytes: Math.round(bytes),
          keptBytes: Math.round(keptBytes),
          shareBytes: excesses.get(accountId)?.shareBytes,
          goesBefore: goesBefore.get(accountId),
        },
      ]
    })
}

/** Accounts whose unrouted messages were dropped, with their number; the highest first. */
export const listNotStored = (
  db: Database,
): readonly { readonly id: UuidBytes; readonly name: string; readonly messages: number }[] =>
  db
    .query<{ id: UuidBytes; name: string; messages: number }, [string, number]>(
      `SELECT uuid AS id, name, value AS messages FROM accounts CROSS JOIN counters ON account_id = accounts.id
       WHERE metric = ? AND hour = 0 ORDER BY value DESC LIMIT ?`,
    )
    .all(UNROUTED_DROPPED_METRIC, MAX_ACCOUNTS)
