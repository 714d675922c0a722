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
import type { Webhook } from './webhooks.ts'

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
}))

/** Consecutive failed attempts, over all events, after which a webhook is deactivated. */
export const MAX_CONSECUTIVE_FAILURES = 10

/** `last_failure_reason` of a webhook that failures deactivated. */
export const DEACTIVATION_REASON = `deactivated after ${MAX_CONSECUTIVE_FAILURES} consecutive failures`

/** Error in the history of deliveries that were pending when failures deactivated their webhook. */
export const ENDED_BY_FAILURES = `The webhook was ${DEACTIVATION_REASON}.`

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

type EndedWebhook = Pick<Webhook, 'id' | 'accountId' | 'routeId' | 'offByFailures' | 'deletedAt'>

/** Ends the pending deliveries of a deactivated or deleted webhook, batch by batch, but for tests. */
export async function endPending(app: App, webhook: EndedWebhook): Promise<void> {
  for (let ended = BATCH_SIZE; ended === BATCH_SIZE; )
    ended = await app.commit.writeFromReserve((tx) => endPendingBatch(app, tx, webhook))
}

/** Ends one batch, and none while the webhook is active. Returns how many. */
export function endPendingBatch(
  app: App,
  tx: Tx,
  { id, accountId, routeId, offByFailures, deletedAt }: EndedWebhook,
): number {
  const reason = offByFailures ? ENDED_BY_FAILURES : 'The webhook was deactivated.'
  const error = deletedAt === null ? reason : 'The webhook was deleted.'
  const ended = sql(tx.db).end.all(deliveryStatusCode('undeliverable'), error, id, TEST_EVENT, BATCH_SIZE)
  if (routeId !== null) {
    for (const { seq, error: reason } of ended)
      if (seq !== null) markInboundUndeliverable(app, tx, accountId, seq, reason)
  }
  return ended.length
}
