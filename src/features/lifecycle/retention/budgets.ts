/**
 * @module Decides from what is used how much has to go: accounts above their fair share of a budget lose their own
 * oldest rows. Reads whole tables, so it runs in the measure Worker or a command, never on the main thread of a
 * service.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { type HeldKind, type Holding, type HoldingSources, holdingsOf, UNOWNED } from './holdings.ts'
import { allocated, type DatabaseUse, type MonthUse, measureDatabase, measureStore, usedOf } from './measure.ts'
import { PartBytes } from './part-bytes.ts'
import { type Excess, findExcesses } from './shares.ts'
import type { WalkName } from './walk.ts'

/** Kinds with a budget. */
export const BUDGETED = ['content', 'events', 'inbound', 'logs'] as const
export type Budgeted = (typeof BUDGETED)[number]

/** Bytes; 0: no bound. */
export type Budgets = Readonly<Record<Budgeted, number>>

/** The sizes as they are configured; `limitToDisk` says which hold. */
export const budgetsOf = (
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
  /** Of them those that never go for their size. */
  keptBytes: number
}

/** By account. */
type Uses = ReadonlyMap<number, AccountUse>

export interface Measured {
  /** What each kind uses, in bytes; 0 for one that was not measured. */
  readonly use: Readonly<Record<Budgeted, number>>
  readonly uses: Readonly<Record<Budgeted, Uses>>
  /** Parent accounts of sub-accounts. */
  readonly parents: ReadonlyMap<number, number>
  readonly database: DatabaseUse
  readonly content: readonly MonthUse[]
  readonly rawMail: readonly MonthUse[]
  readonly sources: HoldingSources
}

/** What goes of an account that is above its share. */
export interface Cut extends Excess {
  readonly kind: Budgeted
  /** What the kind may use in all. */
  readonly budgetBytes: number
  /** What goes is from before this time; undefined: nothing may go, as all that it has is unread or not over. */
  readonly before: Millis | undefined
  /** Row ids by table, oldest first; none for events, which go by their time. */
  readonly rows: ReadonlyMap<WalkName, Float64Array>
}

/** Rows of an account that one measure removes; the next one goes on. */
const MAX_ROWS_PER_CUT = 500_000

/** Whether the files are as large as the smallest budget of what is in them: if not, nothing has to be read. */
export function mayBeOver(dataDir: string, budgets: Budgets): boolean {
  const least = (...kinds: readonly Budgeted[]): number =>
    Math.min(...kinds.map((kind) => (budgets[kind] === 0 ? Number.POSITIVE_INFINITY : budgets[kind])))
  const database = allocated(join(dataDir, 'tassis.db')) + allocated(join(dataDir, 'tassis.db-wal'))
  const content = usedOf(measureStore(join(dataDir, 'content')))
  const rawMail = usedOf(measureStore(join(dataDir, 'raw-mail')))
  return (
    database >= least('events', 'logs') ||
    content >= least('content') ||
    database + content + rawMail >= least('inbound')
  )
}

/** Measures what is used, and by whom. The result reads on from `db`. */
export function measure(db: Database, dataDir: string, budgets?: Budgets): Measured {
  const database = measureDatabase(db)
  const content = measureStore(join(dataDir, 'content'))
  const rawMail = measureStore(join(dataDir, 'raw-mail'))
  const sources: HoldingSources = {
    db,
    use: database,
    content: new PartBytes(join(dataDir, 'content')),
    rawMail: new PartBytes(join(dataDir, 'raw-mail')),
  }
  /** The most that a kind can use: rows are read only where that is too much. */
  const most: Readonly<Record<Budgeted, () => number>> = {
    content: () => usedOf(content),
    events: () => database.groups.events,
    inbound: () => database.groups.inbound + usedOf(rawMail) + Math.min(usedOf(content), receivedBytes(db)),
    logs: () => database.groups.logs,
  }
  const uses = Object.fromEntries(
    BUDGETED.map((kind) => {
      const isMeasured = budgets === undefined || (budgets[kind] > 0 && most[kind]() > budgets[kind])
      return [kind, isMeasured ? usesOf(kind, sources) : new Map()]
    }),
  ) as Record<Budgeted, Uses>
  const use = Object.fromEntries(BUDGETED.map((kind) => [kind, sumOf(uses[kind])])) as Record<Budgeted, number>
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

const sumOf = (uses: Uses): number => Math.round([...uses.values()].reduce((sum, { bytes }) => sum + bytes, 0))

/** Octets of received messages as they came in. */
const receivedBytes = (db: Database): number =>
  db
    .query<{ n: number }, []>(
      `SELECT (SELECT total(size_bytes) FROM inbound_emails) + (SELECT total(size_bytes) FROM mailbox_messages)
         + (SELECT total(size_bytes) FROM received_reports) AS n`,
    )
    .get()?.n ?? 0

function usesOf(kind: Budgeted, sources: HoldingSources): Uses {
  if (kind === 'events')
    return new Map(
      eventsOf(sources.db).map(({ accountId, first, last }) => [
        accountId,
        { bytes: (last - first + 1) * sources.use.bytesOfEvent, keptBytes: 0 },
      ]),
    )
  const uses = new Map<number, AccountUse>()
  for (const { accountId, bytes, isKept } of holdingsOf(kind, sources)) {
    const use = uses.get(accountId) ?? { bytes: 0, keptBytes: 0 }
    use.bytes += bytes
    if (isKept) use.keptBytes += bytes
    uses.set(accountId, use)
  }
  return uses
}

interface EventsOfAccount {
  readonly accountId: number
  readonly first: number
  readonly last: number
}

/** Events are numbered without a gap, so that nobody has to count them. */
const eventsOf = (db: Database): EventsOfAccount[] =>
  db
    .query<EventsOfAccount, []>(
      `SELECT account_id AS accountId, last_seq AS last, (SELECT min(seq) FROM events e WHERE e.account_id = s.account_id) AS first
       FROM event_sequences s WHERE first IS NOT NULL`,
    )
    .all()

/** The accounts above their share of a budget. */
export const excessesOf = ({ uses, parents }: Measured, kind: Budgeted, budget: number): Excess[] =>
  budget === 0
    ? []
    : findExcesses(
        new Map([...uses[kind]].map(([accountId, { bytes }]) => [accountId, bytes])),
        budget,
        parents,
      ).filter(({ accountId }) => accountId !== UNOWNED)

/** What has to go, of each account that is above its share of a kind that is over its budget. */
export const findCuts = (measured: Measured, budgets: Budgets): Cut[] =>
  BUDGETED.flatMap((kind) => {
    const excesses = excessesOf(measured, kind, budgets[kind])
    if (excesses.length === 0) return []
    const cuts = kind === 'events' ? cutEvents(measured, excesses) : cutRows(kind, measured, excesses)
    return cuts.map((cut) => ({ ...cut, budgetBytes: budgets[kind] }))
  })

type CutOfKind = Omit<Cut, 'budgetBytes'>

function cutEvents({ sources: { db, use } }: Measured, excesses: readonly Excess[]): CutOfKind[] {
  const ranges = new Map(eventsOf(db).map((range) => [range.accountId, range]))
  const timeOf = db.query<{ at: Millis }, [number, number]>('SELECT at FROM events WHERE account_id = ? AND seq = ?')
  return excesses.map((excess) => {
    const { accountId, usedBytes, keptBytes } = excess
    const count = Math.ceil((usedBytes - keptBytes) / use.bytesOfEvent)
    const last = timeOf.get(accountId, (ranges.get(accountId)?.first ?? 1) + count - 1)
    return { ...excess, kind: 'events' as const, before: last ? last.at + 1 : undefined, rows: new Map() }
  })
}

/** An account while it is cut, from its newest row on. */
interface Cutting {
  readonly excess: Excess
  /** What it may keep of rows that are still to come. */
  leftBytes: number
  isFull: boolean
  before: Millis | undefined
  readonly rows: Map<WalkName, number[]>
}

/**
 * Of what an account may keep of received mail, the most that its unread messages take from the others: remote clients
 * send them, and must not be able to empty the rest.
 */
const MAX_UNREAD_FRACTION = 0.5

function cutRows(kind: HeldKind, { uses, sources }: Measured, excesses: readonly Excess[]): CutOfKind[] {
  const cuttings = new Map(
    excesses.map((excess): [number, Cutting] => {
      const neverCut = uses[kind].get(excess.accountId)?.keptBytes ?? 0
      const counted = kind === 'inbound' ? Math.min(neverCut, excess.keptBytes * MAX_UNREAD_FRACTION) : neverCut
      const leftBytes = excess.keptBytes - counted
      return [excess.accountId, { excess, leftBytes, isFull: false, before: undefined, rows: new Map() }]
    }),
  )
  for (const holding of holdingsOf(kind, sources)) {
    const cutting = holding.isKept ? undefined : cuttings.get(holding.accountId)
    if (cutting) cutHolding(cutting, holding)
  }
  return [...cuttings.values()].map(({ excess, before, rows }) => ({
    ...excess,
    kind,
    before,
    rows: new Map([...rows].map(([walk, ids]) => [walk, Float64Array.from(ids.slice(-MAX_ROWS_PER_CUT).reverse())])),
  }))
}

function cutHolding(cutting: Cutting, { walk, id, bytes, changedAt }: Holding): void {
  cutting.leftBytes -= bytes
  cutting.isFull ||= cutting.leftBytes < 0
  if (!cutting.isFull) return
  cutting.before = Math.max(cutting.before ?? 0, changedAt + 1)
  const ids = cutting.rows.get(walk) ?? []
  cutting.rows.set(walk, ids)
  ids.push(id)
  // They come newest first, and the oldest ones go first.
  if (ids.length >= 2 * MAX_ROWS_PER_CUT) ids.splice(0, MAX_ROWS_PER_CUT)
}
