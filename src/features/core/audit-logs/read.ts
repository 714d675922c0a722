/**
 * @module Lists the audit log of an account. Filtered lists use the index that leaves the fewest entries, in batches
 * that yield to other requests, and scan a limited number of entries.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { type Millis, yieldToEventLoop } from '#platform/time/clock.ts'
import type { auditLogs } from './tables.ts'

/** Its id is the position in the log of the whole installation. */
export type StoredAuditEntry = Readonly<Omit<typeof auditLogs.$inferSelect, 'salt' | 'digest' | 'hash'>>

export interface AuditFilter {
  readonly action?: string | undefined
  readonly actorType?: string | undefined
  readonly actorId?: string | undefined
  readonly resourceType?: string | undefined
  readonly resourceId?: string | undefined
  /** Both inclusive. */
  readonly from?: Millis | undefined
  readonly to?: Millis | undefined
}

const COLUMNS = `id, uuid, account_id AS accountId, actor_type AS actorType, actor_id AS actorId, action, resource_type AS resourceType,
  resource_id AS resourceId, ip_address AS ipAddress, metadata, created_at AS createdAt`

type FilterValues = [string | null, string | null, string | null, string | null, string | null]

/** SQL that selects entry ids of account ?1 below id ?3, newest first; `condition` may require the indexed value ?2. */
const selectIds = (condition: string): string =>
  `SELECT id FROM audit_logs WHERE account_id = ?1 ${condition} AND id < ?3 ORDER BY id DESC LIMIT ?4`

const sql = prepareStatements((db) => ({
  page: db.prepare<StoredAuditEntry, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM audit_logs WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM audit_logs WHERE account_id = ?'),
  byId: db.prepare<StoredAuditEntry, [number]>(`SELECT ${COLUMNS} FROM audit_logs WHERE id = ?`),
  after: db.prepare<StoredAuditEntry, [number, number, number]>(
    `SELECT ${COLUMNS} FROM audit_logs WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  timeOf: db.prepare<{ id: number; createdAt: Millis }, [number]>(
    'SELECT id, created_at AS createdAt FROM audit_logs WHERE id >= ? ORDER BY id LIMIT 1',
  ),
  bounds: db.prepare<{ first: number | null; last: number | null }, []>(
    'SELECT (SELECT min(id) FROM audit_logs) AS first, (SELECT max(id) FROM audit_logs) AS last',
  ),
  all: db.prepare<{ id: number }, [number, string | null, number, number]>(selectIds('AND ?2 IS NULL')),
  ofAction: db.prepare<{ id: number }, [number, string | null, number, number]>(selectIds('AND action = ?2')),
  ofActor: db.prepare<{ id: number }, [number, string | null, number, number]>(selectIds('AND actor_id = ?2')),
  ofResource: db.prepare<{ id: number }, [number, string | null, number, number]>(selectIds('AND resource_id = ?2')),
  metadataOf: db.prepare<{ metadata: string }, [number, string, number]>(
    `SELECT metadata FROM audit_logs WHERE account_id = ? AND resource_id = ? AND metadata IS NOT NULL
     ORDER BY id DESC LIMIT ?`,
  ),
  fits: db.prepare<{ id: number }, [number, ...FilterValues]>(
    `SELECT id FROM audit_logs WHERE id = ?1 AND (?2 IS NULL OR action = ?2) AND (?3 IS NULL OR actor_type = ?3)
     AND (?4 IS NULL OR actor_id = ?4) AND (?5 IS NULL OR resource_type = ?5) AND (?6 IS NULL OR resource_id = ?6)`,
  ),
  newest: db.prepare<StoredAuditEntry, { account: number | null; action: string | null; from: Millis; limit: number }>(
    `SELECT ${COLUMNS} FROM audit_logs WHERE ($account IS NULL OR account_id = $account) AND ($action IS NULL OR action = $action)
     AND created_at >= $from ORDER BY id DESC LIMIT $limit`,
  ),
}))

/** Fields of metadata that name the resource, the best first. */
const NAME_FIELDS = ['name', 'title', 'subject', 'domain', 'email', 'address', 'url', 'alias', 'slug'] as const
/** Entries of a resource that may be without its name. */
const MAX_ENTRIES_OF_RESOURCE = 20

/** The last name of a resource that its newest entries tell; undefined if they tell none. */
export function findNameInLog(db: Database, accountId: number, resourceId: string): string | undefined {
  const entries = sql(db)
    .metadataOf.all(accountId, resourceId, MAX_ENTRIES_OF_RESOURCE)
    .map(({ metadata }) => parseJsonObject(metadata) ?? {})
  const names = NAME_FIELDS.flatMap((field) => entries.map((fields) => fields[field]))
  return names.find((name) => typeof name === 'string')
}

const BATCH_SIZE = 1000

/**
 * Maximum number of entries that one filtered list scans. An entry takes about 1 µs when the index suffices, and 2 µs
 * when its row is read.
 */
const MAX_ENTRIES_SCANNED = 200_000

/**
 * A page of the account's log, newest first, with the number of entries on all pages. With filters, scans at most the
 * newest MAX_ENTRIES_SCANNED entries of the account, or of the requested resource, actor or action. A time range
 * reaches older entries.
 */
export async function listAuditEntries(
  db: Database,
  accountId: number,
  filter: AuditFilter,
  page: RowWindow,
  takeTurn: () => Promise<void> = yieldToEventLoop,
): Promise<{ entries: StoredAuditEntry[]; total: number }> {
  const statements = sql(db)
  if (Object.values(filter).every((value) => value === undefined))
    return {
      entries: statements.page.all(accountId, belowId(page), page.limit, page.offset),
      total: statements.count.get(accountId)?.n ?? 0,
    }
  const { above, below } = findIdRange(db, filter)
  const { next, isExact } = chooseIdScan(db, accountId, filter)
  const values = toFilterValues(filter)
  const belowPage = belowId(page)
  const ids: number[] = []
  let total = 0
  let cursor = below
  for (let scanned = 0; scanned < MAX_ENTRIES_SCANNED; scanned += BATCH_SIZE) {
    const batch = next(cursor, BATCH_SIZE).filter(({ id }) => id > above)
    for (const { id } of batch) {
      if (!isExact && !statements.fits.get(id, ...values)) continue
      if (id < belowPage && total >= page.offset && ids.length < page.limit) ids.push(id)
      total++
    }
    const last = batch.at(-1)
    if (!last || batch.length < BATCH_SIZE) break
    cursor = last.id
    await takeTurn()
  }
  return { entries: ids.flatMap((id) => statements.byId.get(id) ?? []), total }
}

/** Entries of an account after one, oldest first. */
export const listAuditEntriesAfter = (db: Database, accountId: number, id: number, limit: number): StoredAuditEntry[] =>
  sql(db).after.all(accountId, id, limit)

const toFilterValues = ({ action, actorType, actorId, resourceType, resourceId }: AuditFilter): FilterValues => [
  action ?? null,
  actorType ?? null,
  actorId ?? null,
  resourceType ?? null,
  resourceId ?? null,
]

interface IdScan {
  /** Ids below `cursor`, newest first. */
  readonly next: (cursor: number, limit: number) => { id: number }[]
  /** Whether every id matches all filters, so that no row has to be read. */
  readonly isExact: boolean
}

/** Uses the index that leaves the fewest entries to scan. */
function chooseIdScan(db: Database, accountId: number, filter: AuditFilter): IdScan {
  const { all, ofAction, ofActor, ofResource } = sql(db)
  const filterCount = toFilterValues(filter).filter((value) => value !== null).length
  const scanBy = (statement: typeof all, value: string | undefined): IdScan => ({
    next: (cursor, limit) => statement.all(accountId, value ?? null, cursor, limit),
    isExact: filterCount === (value === undefined ? 0 : 1),
  })
  if (filter.resourceId !== undefined) return scanBy(ofResource, filter.resourceId)
  if (filter.actorId !== undefined) return scanBy(ofActor, filter.actorId)
  if (filter.action !== undefined) return scanBy(ofAction, filter.action)
  return scanBy(all, undefined)
}

/** The ids, both exclusive, that enclose a time range. Times never decrease along the ids. */
function findIdRange(db: Database, { from, to }: AuditFilter): { above: number; below: number } {
  const { first, last } = sql(db).bounds.get() ?? { first: null, last: null }
  const [low, high] = [first ?? 0, (last ?? 0) + 1]
  return {
    above: from === undefined ? low - 1 : findFirstId(db, from, low, high) - 1,
    below: to === undefined ? high : findFirstId(db, to + 1, low, high),
  }
}

/** The first id in [low, high) whose entry has time `at` or later; `high` if there is none. */
function findFirstId(db: Database, at: Millis, low: number, high: number): number {
  let [from, to] = [low, high]
  while (from < to) {
    const middle = Math.floor((from + to) / 2)
    const entry = sql(db).timeOf.get(middle)
    if (!entry || entry.id >= to || entry.createdAt >= at) to = middle
    else from = entry.id + 1
  }
  return from
}

/**
 * The newest entries of one account or of all accounts, for the operator. Scans the whole log when few entries match.
 */
export const listNewestAuditEntries = (
  db: Database,
  accountId: number | undefined,
  { action, from }: Pick<AuditFilter, 'action' | 'from'>,
  limit: number,
): StoredAuditEntry[] =>
  sql(db).newest.all({ account: accountId ?? null, action: action ?? null, from: from ?? 0, limit })
