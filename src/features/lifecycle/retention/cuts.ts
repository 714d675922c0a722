/**
 * @module Measures what each account uses of each kind, and finds what to remove: accounts above their fair share of a
 * size lose their own oldest rows. Reads whole tables, so it runs in the measure Worker or a command, never on the main
 * thread of a service.
 *
 * The invariant: an account that uses at most an equal part of a size loses nothing to that size, whatever other
 * accounts and strangers do.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { Millis } from '#platform/units.ts'
import { BUDGETED, type BudgetedKind, type Budgets, type ByKind, mapKinds } from './budgets.ts'
import { type HeldKind, type Holding, listHoldings, type Parts } from './holdings.ts'
import {
  BlobBytes,
  type DatabaseUse,
  type MonthUse,
  measureAllocated,
  measureDatabase,
  measureStore,
  sumUsedBytes,
} from './measure.ts'
import type { ScanName } from './scan.ts'

interface AccountUse {
  readonly bytes: number
  /** Of these, bytes that are never removed for size. */
  readonly keptBytes: number
}

interface KindUse {
  readonly accounts: ReadonlyMap<number, AccountUse>
  /** Bytes in the database per unit of weight, or per event. */
  readonly scale: number
}

export interface Measurement {
  readonly db: Database
  readonly parts: Parts
  readonly kinds: ByKind<KindUse>
  /** Parent accounts of sub-accounts. */
  readonly parents: ReadonlyMap<number, number>
  readonly database: DatabaseUse
  readonly content: readonly MonthUse[]
  readonly rawMail: readonly MonthUse[]
}

/** What to remove from an account above its share. */
export interface Cut extends Excess {
  readonly kind: BudgetedKind
  readonly budgetBytes: number
  /** Rows from before this time are removed; undefined: nothing can be, because all rows are unread or open. */
  readonly before: Millis | undefined
  /** Row ids by table, oldest first; empty for events, which are removed by time. */
  readonly ids: ReadonlyMap<ScanName, readonly number[]>
}

const readStores = (dataDir: string) => ({
  content: measureStore(join(dataDir, 'content')),
  rawMail: measureStore(join(dataDir, 'raw-mail')),
})

/**
 * Whether the files are at least as large as the smallest budget of their kinds. If they are smaller, no table needs to
 * be read.
 */
export function canExceedBudgets(dataDir: string, budgets: Budgets): boolean {
  const database = measureAllocated(join(dataDir, 'tassis.db')) + measureAllocated(join(dataDir, 'tassis.db-wal'))
  const { content, rawMail } = readStores(dataDir)
  const stores = sumUsedBytes(content) + sumUsedBytes(rawMail)
  const bytes = { content: stores, events: database, inbound: database + stores, logs: database }
  return BUDGETED.some((kind) => bytes[kind] >= budgets[kind])
}

/**
 * Measures use by account. The result keeps reading from `db`.
 * @param budgets omits the rows of kinds that are within theirs
 */
export function measureUse(db: Database, dataDir: string, budgets?: Budgets): Measurement {
  const database = measureDatabase(db)
  const { events, inbound, logs } = database.groups
  const stores = readStores(dataDir)
  const contentBytes = sumUsedBytes(stores.content)
  const parts = { content: new BlobBytes(join(dataDir, 'content')), rawMail: new BlobBytes(join(dataDir, 'raw-mail')) }
  const tableBytes = { content: 0, events, inbound, logs }
  const maxPartBytes = {
    content: contentBytes,
    events: 0,
    inbound: contentBytes + sumUsedBytes(stores.rawMail),
    logs: 0,
  }
  const kinds = mapKinds((kind) => {
    const isMeasured = budgets === undefined || tableBytes[kind] + maxPartBytes[kind] > budgets[kind]
    if (!isMeasured) return measureRows([], 0)
    if (kind === 'events') return measureRows(countEvents(db), events)
    // The weights of received mail are upper limits in bytes: its many tables take space when they are empty, too.
    const maxScale = kind === 'inbound' ? 1 : Number.POSITIVE_INFINITY
    return measureRows(listHoldings(db, kind, parts), tableBytes[kind], maxScale)
  })
  const parents = db
    .query<{ id: number; parentId: number }, []>(
      'SELECT id, parent_id AS parentId FROM accounts WHERE parent_id IS NOT NULL',
    )
    .all()
    .map(({ id, parentId }) => [id, parentId] as const)
  return { db, parts, kinds, parents: new Map(parents), database, ...stores }
}

/** @param tableBytes bytes of the tables, which the rows share by their weight */
function measureRows(
  rows: Iterable<Pick<Holding, 'accountId' | 'weight' | 'partBytes' | 'isKept'>>,
  tableBytes: number,
  maxScale = Number.POSITIVE_INFINITY,
): KindUse {
  const sums = new Map<number, { weight: number; partBytes: number; keptWeight: number; keptPartBytes: number }>()
  let totalWeight = 0
  for (const { accountId, weight, partBytes, isKept } of rows) {
    const sum = sums.get(accountId) ?? { weight: 0, partBytes: 0, keptWeight: 0, keptPartBytes: 0 }
    sums.set(accountId, sum)
    totalWeight += weight
    sum.weight += weight
    sum.partBytes += partBytes
    if (!isKept) continue
    sum.keptWeight += weight
    sum.keptPartBytes += partBytes
  }
  const scale = totalWeight === 0 ? 0 : Math.min(maxScale, tableBytes / totalWeight)
  const accounts = [...sums].map(([accountId, { weight, partBytes, keptWeight, keptPartBytes }]) => {
    const use = { bytes: weight * scale + partBytes, keptBytes: keptWeight * scale + keptPartBytes }
    return [accountId, use] as const
  })
  return { accounts: new Map(accounts), scale }
}

const countEvents = (db: Database) =>
  db
    .query<{ accountId: number; weight: number }, []>(
      'SELECT account_id AS accountId, count(*) AS weight FROM events GROUP BY account_id',
    )
    .all()
    .map((row) => ({ ...row, partBytes: 0, isKept: false }))

export const sumBytes = (uses: ReadonlyMap<number, AccountUse>): number =>
  [...uses.values()].reduce((sum, { bytes }) => sum + bytes, 0)

/** What to remove, for each account above its share of a kind over its budget. */
export const findCuts = (measured: Measurement, budgets: Budgets): Cut[] =>
  BUDGETED.flatMap((kind) => {
    const uses = [...measured.kinds[kind].accounts].map(([id, { bytes }]) => [id, bytes] as const)
    const excesses = findExcesses(new Map(uses), budgets[kind], measured.parents)
    if (excesses.length === 0) return []
    const cuts = kind === 'events' ? cutEvents(measured, excesses) : cutRows(kind, measured, excesses)
    return cuts.map((cut) => ({ ...cut, kind, budgetBytes: budgets[kind] }))
  })

type CutOfKind = Omit<Cut, 'budgetBytes' | 'kind'>

function cutEvents({ db, kinds }: Measurement, excesses: readonly Excess[]): CutOfKind[] {
  const timeOf = db.query<{ at: Millis }, [number, number]>(
    'SELECT at FROM events WHERE account_id = ? ORDER BY seq LIMIT 1 OFFSET ?',
  )
  return excesses.map((excess) => {
    const count = Math.ceil((excess.usedBytes - excess.keptBytes) / kinds.events.scale)
    const last = timeOf.get(excess.accountId, count - 1)
    return { ...excess, before: last ? last.at + 1 : undefined, ids: new Map() }
  })
}

/**
 * The largest fraction of an account's share of received mail that its unread messages may use: remote clients send
 * them, and must not displace all other messages.
 */
const MAX_UNREAD_FRACTION = 0.5

/** Maximum number of an account's rows that one measurement selects for removal; the next measurement selects more. */
const MAX_ROWS_PER_CUT = 500_000

function cutRows(kind: HeldKind, { db, kinds, parts }: Measurement, excesses: readonly Excess[]): CutOfKind[] {
  const { accounts, scale } = kinds[kind]
  const states = excesses.map((excess) => {
    const protectedBytes = accounts.get(excess.accountId)?.keptBytes ?? 0
    const reservedBytes =
      kind === 'inbound' ? Math.min(protectedBytes, excess.keptBytes * MAX_UNREAD_FRACTION) : protectedBytes
    return {
      excess,
      /** Bytes that the remaining rows may keep. */
      leftBytes: excess.keptBytes - reservedBytes,
      before: undefined as Millis | undefined,
      ids: new Map<ScanName, number[]>(),
    }
  })
  const stateOf = new Map(states.map((state) => [state.excess.accountId, state]))
  for (const { scan, id, accountId, weight, partBytes, changedAt, isKept } of listHoldings(db, kind, parts)) {
    const state = isKept ? undefined : stateOf.get(accountId)
    if (!state) continue
    // Once a row does not fit, no older one does.
    if (state.leftBytes >= 0) state.leftBytes -= weight * scale + partBytes
    if (state.leftBytes >= 0) continue
    state.before = Math.max(state.before ?? 0, changedAt + 1)
    const ids = state.ids.get(scan) ?? []
    state.ids.set(scan, ids)
    ids.push(id)
    // The oldest must be removed first: if there are too many, the newest are dropped from the list.
    if (ids.length >= 2 * MAX_ROWS_PER_CUT) ids.splice(0, MAX_ROWS_PER_CUT)
  }
  return states.map(({ excess, before, ids }) => ({
    ...excess,
    before,
    ids: new Map([...ids].map(([scan, all]) => [scan, all.slice(-MAX_ROWS_PER_CUT).reverse()])),
  }))
}

/**
 * An account above its share is cut to this fraction of its share, so that it does not exceed the share again
 * immediately.
 */
const TARGET_FRACTION = 0.95

/** The largest use within its fair share (max-min); infinite when all fit. */
export function computeFairShare(uses: readonly number[], budget: number): number {
  let leftBytes = budget
  for (const [index, use] of uses.toSorted((a, b) => a - b).entries()) {
    const share = leftBytes / (uses.length - index)
    if (use > share) return share
    leftBytes -= use
  }
  return Number.POSITIVE_INFINITY
}

/** An account above its fair share. */
export interface Excess {
  readonly accountId: number
  readonly usedBytes: number
  readonly shareBytes: number
  /** Bytes that it may keep. */
  readonly keptBytes: number
}

/**
 * The accounts above their fair share; none while the sum is within the budget. An account below an equal share keeps
 * everything, and the others divide the rest equally. Sub-accounts divide the share of their parent; otherwise a tenant
 * could multiply its share by creating sub-accounts.
 * @param uses bytes by account
 * @param parents parent accounts of sub-accounts
 */
export function findExcesses(
  uses: ReadonlyMap<number, number>,
  budget: number,
  parents: ReadonlyMap<number, number>,
): Excess[] {
  const families = [...Map.groupBy(uses, ([accountId]) => parents.get(accountId) ?? accountId).values()]
  const share = computeFairShare(families.map(sumFamily), budget)
  return families
    .filter((family) => sumFamily(family) > share)
    .flatMap((family) => {
      const shareBytes = computeFairShare(
        family.map(([, bytes]) => bytes),
        share,
      )
      return family
        .filter(([, usedBytes]) => usedBytes > shareBytes)
        .map(([accountId, usedBytes]) => ({
          accountId,
          usedBytes,
          shareBytes,
          keptBytes: shareBytes * TARGET_FRACTION,
        }))
    })
}

const sumFamily = (uses: readonly (readonly [number, number])[]): number =>
  uses.reduce((sum, [, bytes]) => sum + bytes, 0)
