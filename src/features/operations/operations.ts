/** @module Long-running and bulk work as the API shows it. The only writer of `operations`. */
import type { Actor, App } from '#features/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'

export interface NewOperation {
  readonly type: 'batch'
  readonly status: 'pending' | 'processing' | 'completed' | 'failed'
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly errorSummary: string | null
}

const sql = prepared((db) => ({
  insert: db.prepare<{ id: number }, (string | number | Uint8Array | null)[]>(
    `INSERT INTO operations (uuid, account_id, operation_type, status, total_items, completed_items, failed_items, error_summary, created_at, updated_at,
     completed_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  ),
}))

/** How long an operation is listed. */
const KEPT_MS = days(90)

/** Writes an operation; `completed` and `failed` ones get their end now. */
export function insertOperation(app: App, tx: Tx, actor: Actor, operation: NewOperation): { id: number; uuid: string } {
  const uuid = newUuid()
  const now = app.eventTime()
  const isOver = operation.status === 'completed' || operation.status === 'failed'
  const row = sql(tx.db).insert.get(
    uuid,
    actor.accountId,
    operation.type,
    operation.status,
    operation.total,
    operation.completed,
    operation.failed,
    operation.errorSummary,
    now,
    now,
    isOver ? now : null,
    now + KEPT_MS,
  )
  if (!row) throw new Error('the operation was not stored')
  return { id: row.id, uuid: formatUuid(uuid) }
}
