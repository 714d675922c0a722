/**
 * @module Lists the audit log of an account, and has its wire form. Filtered lists scan a limited number of entries, in batches that yield to
 * other requests.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { belowId, newestFirst, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { toWire } from '#platform/http/envelope.ts'
import { extra, Nullable, Text, TextOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { isJsonObject, parseJsonObject } from '#platform/json-object.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import type { FieldChange } from './audit.ts'
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

const sql = prepareStatements((db) => ({
  list: newestFirst<StoredAuditEntry, [number]>(
    db,
    `SELECT ${COLUMNS} FROM audit_logs`,
    'audit_logs WHERE account_id = ?',
  ),
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
  matching: db.prepare<{ id: number }, [number, number, number, ...(string | null)[]]>(
    `SELECT id FROM audit_logs WHERE account_id = ?1 AND id < ?2 AND id >= ?3 AND (?4 IS NULL OR action = ?4)
     AND (?5 IS NULL OR actor_type = ?5) AND (?6 IS NULL OR actor_id = ?6) AND (?7 IS NULL OR resource_type = ?7)
     AND (?8 IS NULL OR resource_id = ?8) ORDER BY id DESC`,
  ),
  batchEnd: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT id FROM audit_logs WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  ),
  metadataOf: db.prepare<{ metadata: string }, [number, string, number]>(
    `SELECT metadata FROM audit_logs WHERE account_id = ? AND resource_id = ? AND metadata IS NOT NULL
     ORDER BY id DESC LIMIT ?`,
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

/** Maximum number of entries that one filtered list scans, about 2 µs each. */
const MAX_ENTRIES_SCANNED = 200_000

/**
 * A page of the account's log, newest first, with the number of entries on all pages. With filters, scans at most the
 * newest MAX_ENTRIES_SCANNED entries of the account. A time range reaches older entries.
 */
export async function listAuditEntries(
  db: Database,
  accountId: number,
  filter: AuditFilter,
  page: RowWindow,
  takeTurn: () => Promise<void> = yieldToEventLoop,
): Promise<{ entries: StoredAuditEntry[]; total: number }> {
  const statements = sql(db)
  if (Object.values(filter).every((value) => value === undefined)) {
    const { rows: entries, total } = statements.list(page, accountId)
    return { entries, total }
  }
  const { above, below } = findIdRange(db, filter)
  const { action, actorType, actorId, resourceType, resourceId } = filter
  const values = [action, actorType, actorId, resourceType, resourceId].map((value) => value ?? null)
  const belowPage = belowId(page)
  const ids: number[] = []
  let total = 0
  let cursor = below
  for (let scanned = 0; scanned < MAX_ENTRIES_SCANNED && cursor > above + 1; scanned += BATCH_SIZE) {
    const end = Math.max(statements.batchEnd.get(accountId, cursor, BATCH_SIZE - 1)?.id ?? 0, above + 1)
    for (const { id } of statements.matching.all(accountId, cursor, end, ...values)) {
      if (id < belowPage && total >= page.offset && ids.length < page.limit) ids.push(id)
      total++
    }
    cursor = end
    await takeTurn()
  }
  return { entries: ids.flatMap((id) => statements.byId.get(id) ?? []), total }
}

/** Entries of an account after one, oldest first. */
export const listAuditEntriesAfter = (db: Database, accountId: number, id: number, limit: number): StoredAuditEntry[] =>
  sql(db).after.all(accountId, id, limit)

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

export const AuditLogRecord = Type.Object({
  id: Uuid({ description: 'Id of the entry.' }),
  account_id: Nullable(Uuid(), { description: 'Account that the change concerns.' }),
  actor_type: Type.String({ description: 'user, api_key, system or operator.' }),
  actor_id: Text(
    'Id of the key or user, or `cli`, `system` or another actor of the service; `erased` once the personal fields of the entry are erased.',
  ),
  action: Type.String({ description: 'What happened: domain.created, api_key.deleted and so on.' }),
  resource_type: Nullable(Type.String(), { description: 'Type of the changed resource.' }),
  resource_id: Nullable(Type.String(), { description: 'Id of the changed resource.' }),
  ip_address: Nullable(Type.String(), { description: 'Client address of the request; null when there was none.' }),
  metadata: Nullable(Type.Unknown(), { description: 'Details of the change.' }),
  created_at: Timestamp({ description: 'When the change was made.' }),
  actor_name: extra(
    Type.Optional(
      TextOrNull('Name or address of the user, name of the key, `Tassis` for the service; null: not known any more.'),
    ),
  ),
  resource_name: extra(
    Type.Optional(Nullable(Type.String(), { description: 'Name of the resource, or its last known one; null: none.' })),
  ),
  resource_exists: extra(
    Type.Optional(
      Nullable(Type.Boolean(), {
        description: 'Whether the resource still exists; null for kinds without an own row.',
      }),
    ),
  ),
  changes: extra(
    Type.Array(
      Type.Object({
        field: Type.String({ description: 'Name of the field.' }),
        from: Type.Unknown({ description: 'Value before.' }),
        to: Type.Unknown({ description: 'Value after.' }),
      }),
      { description: 'The fields that the change set to other values; empty for other changes.' },
    ),
  ),
})
export type AuditLogRecord = Static<typeof AuditLogRecord>

/** What an entry refers to, as it is now. */
export type AuditNames = Required<Pick<AuditLogRecord, 'actor_name' | 'resource_name' | 'resource_exists'>>

const LOGGED = Type.Omit(AuditLogRecord, ['actor_name', 'resource_name', 'resource_exists', 'changes'])

/** The metadata of an entry. Text that tampering made invalid JSON is returned unchanged. */
export function parseAuditMetadata(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** @param names of its actor and resource; absent: not looked up */
export function toAuditLogWire(entry: StoredAuditEntry, account_id: string, names?: AuditNames): AuditLogRecord {
  const parsed = parseAuditMetadata(entry.metadata)
  const { changes = [], ...metadata } = isJsonObject(parsed) ? (parsed as { readonly changes?: FieldChange[] }) : {}
  return {
    ...toWire(LOGGED, entry, { account_id, metadata: isJsonObject(parsed) ? metadata : parsed }),
    ...names,
    changes: [...changes],
  }
}
