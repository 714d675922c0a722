/** @module Finds the events that webhooks still need, so that retention keeps them longer. Never writes. */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  cursor: db.prepare<{ seq: number | null }, [number]>(
    'SELECT min(cursor_seq) AS seq FROM webhooks WHERE account_id = ? AND is_active = 1 AND deleted_at IS NULL AND route_id IS NULL',
  ),
  // Uses an index: one lookup per route, however much mail the route has.
  ofRoutes: db.prepare<{ seq: number | null }, [number]>(
    `SELECT min((SELECT event_seq FROM inbound_emails i WHERE i.route_id = w.route_id AND event_seq > cursor_seq ORDER BY event_seq LIMIT 1)) AS seq
     FROM webhooks w WHERE account_id = ? AND is_active = 1 AND deleted_at IS NULL AND route_id IS NOT NULL`,
  ),
  pending: db.prepare<{ seq: number | null }, [number]>(
    `SELECT min(seq) AS seq FROM webhooks JOIN webhook_deliveries ON webhook_id = webhooks.id
     WHERE account_id = ? AND next_at IS NOT NULL AND seq IS NOT NULL`,
  ),
}))

/**
 * Number of the first event of an account that a webhook may still need; undefined when none is needed. Inactive
 * webhooks need none, because events from the inactive time are not sent.
 */
export function findFirstNeededSeq(db: Database, accountId: number): number | undefined {
  const { cursor, ofRoutes, pending } = sql(db)
  const cursorSeq = cursor.get(accountId)?.seq
  const needed = [
    cursorSeq == null ? null : cursorSeq + 1,
    ofRoutes.get(accountId)?.seq ?? null,
    pending.get(accountId)?.seq ?? null,
  ].filter((seq) => seq !== null)
  return needed.length === 0 ? undefined : Math.min(...needed)
}
