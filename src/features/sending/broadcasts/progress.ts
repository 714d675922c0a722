/** @module Counts the emails of a broadcast by status. Never writes. */
import type { Database } from 'bun:sqlite'
import { STATUSES, type Status, statusName } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { findBroadcastOfOperation } from './states.ts'

const sql = prepareStatements((db) => ({
  // Reads only the index `emails_of_operation`: some 50 ms for a million emails.
  byStatus: db.prepare<{ status: number; n: number }, [number]>(
    'SELECT status, COUNT(*) AS n FROM emails WHERE operation_id = ? GROUP BY status',
  ),
}))

/** Number of emails in each status; undefined when the operation is not a broadcast. */
export function countBroadcastEmails(
  db: Database,
  accountId: number,
  operationId: number,
): Readonly<Record<Status, number>> | undefined {
  const broadcast = findBroadcastOfOperation(db, accountId, operationId)
  if (!broadcast) return undefined
  const counts = Object.fromEntries(STATUSES.map((status) => [status, 0])) as Record<Status, number>
  for (const { status, n } of sql(db).byStatus.all(operationId)) counts[statusName(status)] = n
  return counts
}
