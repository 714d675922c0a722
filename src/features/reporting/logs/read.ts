/**
 * @module Lists the request log of an account, newest first. Filters scan its rows in batches that yield to other
 * requests; a log has so few rows that they need no index.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { belowId } from '#platform/db/row-window.ts'
import type { Page } from '#platform/http/schemas.ts'
import { type Millis, yieldToEventLoop } from '#platform/time/clock.ts'
import { countLogRows, toLogId } from './request-log.ts'
import type { requestLogs } from './tables.ts'

export type StoredLogEntry = Readonly<Omit<typeof requestLogs.$inferSelect, 'accountId' | 'size'>> & {
  /** Of the API key, also of a revoked one, or of the user. */
  readonly actorName: string | null
  readonly isKey: number
}

export interface LogFilter {
  /** Code of a kind. */
  readonly kind?: number | undefined
  readonly minStatus?: number | undefined
  readonly maxStatus?: number | undefined
  readonly method?: string | undefined
  /** Beginning of the path. */
  readonly path?: string | undefined
  readonly actorId?: string | undefined
  readonly requestId?: string | undefined
  /** Part of the path, or of code or message of the error. */
  readonly text?: string | undefined
  /** Both inclusive. */
  readonly from?: Millis | undefined
  readonly to?: Millis | undefined
}

/** Rows that one query scans, in some milliseconds. */
const BATCH_SIZE = 5000

type Param = string | number | null
const ACTOR_UUID = "unhex(replace(actor_id, '-', ''))"

const sql = prepareStatements((db) => ({
  ids: db.prepare<{ id: number }, [number, number, number, ...Param[]]>(
    `SELECT id FROM request_logs WHERE account_id = ?1 AND id < ?2 AND id >= ?3 AND (?4 IS NULL OR kind = ?4)
     AND (?5 IS NULL OR status >= ?5) AND (?6 IS NULL OR status <= ?6) AND (?7 IS NULL OR method = ?7)
     AND (?8 IS NULL OR substr(path, 1, length(?8)) = ?8) AND (?9 IS NULL OR actor_id = ?9)
     AND (?10 IS NULL OR request_id = ?10)
     AND (?11 IS NULL OR instr(lower(concat_ws(' ', path, error_code, error_message)), lower(?11)) > 0)
     ORDER BY id DESC LIMIT ?12`,
  ),
  batchEnd: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT id FROM request_logs WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  ),
  byId: db.prepare<StoredLogEntry, [number, number]>(
    `SELECT request_logs.id, kind, method, path, status, error_code AS errorCode, error_message AS errorMessage,
     duration_ms AS durationMs, actor_id AS actorId, ip_address AS ipAddress, user_agent AS userAgent,
     request_id AS requestId, email_id AS emailId, body,
     coalesce(api_keys.name, revoked_api_keys.name, users.name) AS actorName, coalesce(api_keys.uuid, revoked_api_keys.uuid) IS NOT NULL AS isKey
     FROM request_logs LEFT JOIN api_keys ON api_keys.uuid = ${ACTOR_UUID} AND api_keys.account_id = request_logs.account_id
     LEFT JOIN revoked_api_keys ON revoked_api_keys.uuid = ${ACTOR_UUID} AND revoked_api_keys.account_id = request_logs.account_id
     LEFT JOIN users ON users.uuid = ${ACTOR_UUID} WHERE request_logs.account_id = ? AND request_logs.id = ?`,
  ),
}))

export const findLogEntry = (db: Database, accountId: number, id: number): StoredLogEntry | undefined =>
  sql(db).byId.get(accountId, id) ?? undefined

/** A page of the log; `total` is exact without filters, else the rows up to the end of the page. */
export async function listLogEntries(
  db: Database,
  accountId: number,
  filter: LogFilter,
  page: Page,
  takeTurn: () => Promise<void> = yieldToEventLoop,
): Promise<{ entries: StoredLogEntry[]; total: number; hasMore: boolean }> {
  const isFiltered = Object.values(filter).some((value) => value !== undefined)
  const { kind, minStatus, maxStatus, method, path, actorId, requestId, text, from = 0, to } = filter
  const values = [kind, minStatus, maxStatus, method, path, actorId, requestId, text].map((value) => value ?? null)
  const wanted = page.offset + page.limit + 1
  const found: number[] = []
  let below = Math.min(belowId(page), to === undefined ? Number.MAX_SAFE_INTEGER : toLogId(to + 1))
  while (found.length < wanted) {
    const end = sql(db).batchEnd.get(accountId, below, BATCH_SIZE)?.id ?? 0
    const rows = sql(db).ids.all(accountId, below, Math.max(end, toLogId(from)), ...values, wanted - found.length)
    found.push(...rows.map(({ id }) => id))
    if (end <= toLogId(from)) break
    below = end
    await takeTurn()
  }
  const hasMore = found.length === wanted
  const entries = found.slice(page.offset, wanted - 1).flatMap((id) => findLogEntry(db, accountId, id) ?? [])
  const seen = (page.after ? page.rowsBefore : 0) + found.length
  return { entries, hasMore, total: isFiltered ? seen : countLogRows(db, accountId) }
}
