/**
 * @module Computes from the measured use what to remove: accounts above their fair share of a budget lose their own
 * oldest rows. Reads whole tables, so it runs in the measure Worker or a command, never on the main thread of a
 * service.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { numberOfNth, skippedSql } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { BlobBytes } from './blob-bytes.ts'
import { type HeldKind, type Holding, type HoldingSources, listHoldings, UNOWNED } from './holdings.ts'
import {
  type DatabaseUse,
  type MonthUse,
  measureAllocated,
  measureDatabase,
  measureStore,
  sumUsedBytes,
} from './measure.ts'
import type { ScanName } from './scan.ts'
import { type Excess, findExcesses } from './shares.ts'

/** Kinds with a budget. */
export const BUDGETED = ['content', 'events', 'inbound', 'logs'] as const
export type BudgetedKind = (typeof BUDGETED)[number]

/** Bytes; 0: no limit. */
export type Budgets = Readonly<Record<BudgetedKind, number>>

/** The configured sizes; `limitToDisk` computes the effective ones. */
export const readBudgets = (
  config: Pick<Config, 'contentMaxBytes' | 'eventsMaxBytes' | 'inboundMaxBytes' | 'logsMaxBytes'>,
): Budgets => ({
  content: config.contentMaxBytes,
  events: config.eventsMaxBytes,
  inbound: config.inboundMaxBytes,
  logs: config.logsMaxBytes,
})

/** What an account uses of a kind. */
interface AccountUse {
  bytes: number
  /** Of these, bytes that are never removed for size. */
  keptBytes: number
}

/** By account. */
type AccountUses = ReadonlyMap<number, AccountUse>

export interface Measurement {
  /** Use of each kind in bytes; 0 if not measured. */
  readonly use: Readonly<Record<BudgetedKind, number>>
  readonly uses: Readonly<Record<BudgetedKind, AccountUses>>
  /** Parent accounts of sub-accounts. */
  readonly parents: ReadonlyMap<number, number>
  readonly database: DatabaseUse
  readonly content: readonly MonthUse[]
  readonly rawMail: readonly MonthUse[]
  readonly sources: HoldingSources
}

/** What to remove from an account above its share. */
export interface Cut extends Excess {
  readonly kind: BudgetedKind
  /** Budget of the kind. */
  readonly budgetBytes: number
  /** Rows from before this time are removed; undefined: nothing can be, because all rows are unread or open. */
  readonly before: Millis | undefined
  /** Row ids by table, oldest first; empty for events, which are removed by time. */
  readonly rows: ReadonlyMap<ScanName, Float64Array>
}

/** Maximum number of an account's rows that one measurement selects for removal; the next measurement selects more. */
const MAX_ROWS_PER_CUT = 500_000

/**
 * Whether the files are at least as large as the smallest budget of their kinds. If they are smaller, no table needs to
 * be read.
 */
export function canExceedBudgets(dataDir: string, budgets: Budgets): boolean {
  const findSmallest = (...kinds: readonly BudgetedKind[]): number =>
    Math.min(...kinds.map((kind) => (budgets[kind] === 0 ? Number.POSITIVE_INFINITY : budgets[kind])))
  const database = measureAllocated(join(dataDir, 'tassis.db')) + measureAllocated(join(dataDir, 'tassis.db-wal'))
  const content = sumUsedBytes(measureStore(join(dataDir, 'content')))
  const rawMail = sumUsedBytes(measureStore(join(dataDir, 'raw-mail')))
  return (
    database >= findSmallest('events', 'logs') ||
    content >= findSmallest('content') ||
    database + content + rawMail >= findSmallest('inbound')
  )
}

/** Measures use by account. The result keeps reading from `db`. */
export function measureUse(db: Database, dataDir: string, budgets?: Budgets): Measurement {
  const database = measureDatabase(db)
  const content = measureStore(join(dataDir, 'content'))
  const rawMail = measureStore(join(dataDir, 'raw-mail'))
  const sources: HoldingSources = {
    db,
    use: database,
    content: new BlobBytes(join(dataDir, 'content')),
    rawMail: new BlobBytes(join(dataDir, 'raw-mail')),
  }
  /** Upper limit of the use of each kind: its rows are read only if this limit exceeds the budget. */
  const maxUse: Readonly<Record<BudgetedKind, () => number>> = {
    content: () => sumUsedBytes(content),
    events: () => database.groups.events,
    inbound: () =>
      database.groups.inbound + sumUsedBytes(rawMail) + Math.min(sumUsedBytes(content), countReceivedBytes(db)),
    logs: () => database.groups.logs,
  }
  const uses = Object.fromEntries(
    BUDGETED.map((kind) => {
      const isMeasured = budgets === undefined || (budgets[kind] > 0 && maxUse[kind]() > budgets[kind])
      return [kind, isMeasured ? measureAccounts(kind, sources) : new Map()]
    }),
  ) as Record<BudgetedKind, AccountUses>
  const use = Object.fromEntries(BUDGETED.map((kind) => [kind, sumBytes(uses[kind])])) as Record<BudgetedKind, number>
  const parents = new Map(
    db
      .query<{ id: number; parentId: number }, []>(
        'SELECT id, parent_id AS parentId FROM accounts WHERE parent_id IS NOT NULL',
      )
      .all()
      .map(({ id, parentId }) => [id, parentId]),
  )
  return { use, uses, parents, database, content, rawMail, sources }
}

const sumBytes = (uses: AccountUses): number =>
  Math.round([...uses.values()].reduce((sum, { bytes }) => sum + bytes, 0))

/** Octets of received messages in their original form. */
const countReceivedBytes = (db: Database): number =>
  db
    .query<{ n: number }, []>(
      `SELECT (SELECT total(size_bytes) FROM inbound_emails) + (SELECT total(size_bytes) FROM mailbox_messages)
         + (SELECT total(size_bytes) FROM received_reports) AS n`,
    )
    .get()?.n ?? 0

function measureAccounts(kind: BudgetedKind, sources: HoldingSources): AccountUses {
  if (kind === 'events')
    return new Map(
      listEventRanges(sources.db).map(({ accountId, first, last, skipped }) => [
        accountId,
        { bytes: (last - first + 1 - skipped) * sources.use.bytesOfEvent, keptBytes: 0 },
      ]),
    )
  const uses = new Map<number, AccountUse>()
  for (const { accountId, bytes, isKept } of listHoldings(kind, sources)) {
    const use = uses.get(accountId) ?? { bytes: 0, keptBytes: 0 }
    use.bytes += bytes
    if (isKept) use.keptBytes += bytes
    uses.set(accountId, use)
  }
  return uses
}

interface EventRange {
  readonly accountId: number
  readonly first: number
  readonly last: number
  /** Numbers between them that no event has. */
  readonly skipped: number
}

/** The first and last number and the skipped ones between them give the count of events. */
const listEventRanges = (db: Database): EventRange[] =>
  db
    .query<EventRange, []>(
      `SELECT account_id AS accountId, last_seq AS last, (SELECT min(seq) FROM events e WHERE e.account_id = s.account_id) AS first,
       ${skippedSql('s.account_id', '(SELECT min(seq) FROM events e WHERE e.account_id = s.account_id)', 's.last_seq')} AS skipped
       FROM event_sequences s WHERE first IS NOT NULL`,
    )
    .all()

/** The accounts above their share of a budget. */
export const findKindExcesses = ({ uses, parents }: Measurement, kind: BudgetedKind, budget: number): Excess[] =>
  budget === 0
    ? []
    : findExcesses(
        new Map([...uses[kind]].map(([accountId, { bytes }]) => [accountId, bytes])),
        budget,
        parents,
      ).filter(({ accountId }) => accountId !== UNOWNED)

/** What to remove, for each account above its share of a kind over its budget. */
export const findCuts = (measured: Measurement, budgets: Budgets): Cut[] =>
  BUDGETED.flatMap((kind) => {
    const excesses = findKindExcesses(measured, kind, budgets[kind])
    if (excesses.length === 0) return []
    const cuts = kind === 'events' ? cutEvents(measured, excesses) : cutRows(kind, measured, excesses)
    return cuts.map((cut) => ({ ...cut, budgetBytes: budgets[kind] }))
  })

type CutOfKind = Omit<Cut, 'budgetBytes'>

function cutEvents({ sources: { db, use } }: Measurement, excesses: readonly Excess[]): CutOfKind[] {
  const ranges = new Map(listEventRanges(db).map((range) => [range.accountId, range]))
  const timeOf = db.query<{ at: Millis }, [number, number]>('SELECT at FROM events WHERE account_id = ? AND seq = ?')
  return excesses.map((excess) => {
    const { accountId, usedBytes, keptBytes } = excess
    const count = Math.ceil((usedBytes - keptBytes) / use.bytesOfEvent)
    const last = timeOf.get(accountId, numberOfNth(db, accountId, ranges.get(accountId)?.first ?? 1, count))
    return { ...excess, kind: 'events' as const, before: last ? last.at + 1 : undefined, rows: new Map() }
  })
}

/** State of an account while its rows are read, newest first. */
interface CutState {
  readonly excess: Excess
  /** Bytes that the remaining rows may keep. */
  leftBytes: number
  isFull: boolean
  before: Millis | undefined
  readonly rows: Map<ScanName, number[]>
}

/**
 * The largest fraction of an account's share of received mail that its unread messages may use: remote clients send
 * them, and must not displace all other messages.
 */
const MAX_UNREAD_FRACTION = 0.5

function cutRows(kind: HeldKind, { uses, sources }: Measurement, excesses: readonly Excess[]): CutOfKind[] {
  const states = new Map(
    excesses.map((excess): [number, CutState] => {
      const protectedBytes = uses[kind].get(excess.accountId)?.keptBytes ?? 0
      const reservedBytes =
        kind === 'inbound' ? Math.min(protectedBytes, excess.keptBytes * MAX_UNREAD_FRACTION) : protectedBytes
      const leftBytes = excess.keptBytes - reservedBytes
      return [excess.accountId, { excess, leftBytes, isFull: false, before: undefined, rows: new Map() }]
    }),
  )
  for (const holding of listHoldings(kind, sources)) {
    const state = holding.isKept ? undefined : states.get(holding.accountId)
    if (state) cutHolding(state, holding)
  }
  return [...states.values()].map(({ excess, before, rows }) => ({
    ...excess,
    kind,
    before,
    rows: new Map([...rows].map(([scan, ids]) => [scan, Float64Array.from(ids.slice(-MAX_ROWS_PER_CUT).reverse())])),
  }))
}

function cutHolding(state: CutState, { scan, id, bytes, changedAt }: Holding): void {
  state.leftBytes -= bytes
  state.isFull ||= state.leftBytes < 0
  if (!state.isFull) return
  state.before = Math.max(state.before ?? 0, changedAt + 1)
  const ids = state.rows.get(scan) ?? []
  state.rows.set(scan, ids)
  ids.push(id)
  // Rows arrive newest first, but the oldest must be removed first: if there are too many, the newest are dropped from
  // the list.
  if (ids.length >= 2 * MAX_ROWS_PER_CUT) ids.splice(0, MAX_ROWS_PER_CUT)
}
