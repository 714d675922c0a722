/**
 * @module Creates pending deliveries on request (tests and replays), and ends pending deliveries that their webhook no
 * longer needs.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { markInboundUndeliverable } from '#features/receiving/inbound/api/model.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { deliveryStatusCode, TEST_EVENT } from '../event-names.ts'

export interface NewDelivery {
  readonly webhookId: number
  /** Position of the event in the feed; null for a delivery that has all its data in `payload`. */
  readonly seq: number | null
  readonly event: string
  /** JSON of the body; null when it is built from the event. */
  readonly payload: string | null
}

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    `INSERT INTO webhook_deliveries (uuid, webhook_id, seq, event, payload, status, attempts, next_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)`,
  ),
  count: db.prepare<{ n: number }, [number]>(
    'SELECT COUNT(*) AS n FROM webhook_deliveries WHERE webhook_id = ? AND next_at IS NOT NULL',
  ),
  end: db.prepare<{ seq: number | null; error: string }, [number, string, number, string, number]>(
    `UPDATE webhook_deliveries SET status = ?, next_at = NULL, error = coalesce(error || ' ', '') || ? WHERE id IN
     (SELECT d.id FROM webhook_deliveries d JOIN webhooks ON webhooks.id = webhook_id AND (is_active = 0 OR webhooks.deleted_at IS NOT NULL)
      WHERE webhook_id = ? AND next_at IS NOT NULL AND event <> ? LIMIT ?) RETURNING seq, error`,
  ),
  route: db.prepare<{ accountId: number; routeId: number | null }, [number]>(
    'SELECT account_id AS accountId, route_id AS routeId FROM webhooks WHERE id = ?',
  ),
}))

/** Deliveries ended in one transaction: a few milliseconds. */
const BATCH_SIZE = 200

/** Stores a delivery that is due at `now`. Returns its public id. */
export function insertPending(tx: Tx, delivery: NewDelivery, now: Millis): UuidBytes {
  const uuid = newUuid()
  const { webhookId, seq, event, payload } = delivery
  sql(tx.db).insert.run(uuid, webhookId, seq, event, payload, deliveryStatusCode('pending'), now, now)
  return uuid
}

export const countPending = (db: Database, webhookId: number): number => sql(db).count.get(webhookId)?.n ?? 0

/** Ends the pending deliveries of a deactivated or deleted webhook, batch by batch, but for tests. */
export async function endPending(app: App, webhookId: number, error: string): Promise<void> {
  for (let ended = BATCH_SIZE; ended === BATCH_SIZE; )
    ended = await app.commit.writeFromReserve((tx) => endPendingBatch(app, tx, webhookId, error))
}

/** Ends one batch, and none while the webhook is active. Returns how many. */
export function endPendingBatch(app: App, tx: Tx, webhookId: number, error: string): number {
  const ended = sql(tx.db).end.all(deliveryStatusCode('undeliverable'), error, webhookId, TEST_EVENT, BATCH_SIZE)
  const webhook = ended.length > 0 ? sql(tx.db).route.get(webhookId) : null
  if (webhook && webhook.routeId !== null) {
    for (const { seq, error: reason } of ended)
      if (seq !== null) markInboundUndeliverable(app, tx, webhook.accountId, seq, reason)
  }
  return ended.length
}
