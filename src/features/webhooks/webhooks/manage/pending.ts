/**
 * @module Creates pending deliveries on request (tests and replays), and ends those that their webhook no longer needs.
 * Purges old history and deleted webhooks. Finds the events that webhooks still need, so that retention keeps them
 * longer.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { markInboundUndeliverable } from '#features/receiving/inbound/api/model.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import { deliveryStatusCode, TEST_EVENT } from '../event-names.ts'
import type { webhookDeliveries } from '../tables.ts'
import { dropPreviousSecrets } from './secrets.ts'
import { findWebhookById, type Webhook } from './webhooks.ts'

type NewDelivery = Readonly<Pick<typeof webhookDeliveries.$inferSelect, 'webhookId' | 'seq' | 'event' | 'payload'>>

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
  deleted: db.prepare<{ id: number; uuid: Uint8Array }, []>(
    'SELECT id, uuid FROM webhooks WHERE deleted_at IS NOT NULL ORDER BY id',
  ),
  inactiveWithPending: db.prepare<{ id: number }, []>(
    `SELECT id FROM webhooks WHERE is_active = 0 AND deleted_at IS NULL
     AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE webhook_id = webhooks.id AND next_at IS NOT NULL) ORDER BY id`,
  ),
  deleteOfWebhook: db.prepare(
    'DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM webhook_deliveries WHERE webhook_id = ? LIMIT ?)',
  ),
  deleteWebhook: db.prepare('DELETE FROM webhooks WHERE id = ?'),
  // The id grows with created_at.
  slice: db.prepare<{ id: number; createdAt: number }, [number, number]>(
    'SELECT id, created_at AS createdAt FROM webhook_deliveries WHERE id > ? ORDER BY id LIMIT ?',
  ),
  deleteOld: db.prepare(
    'DELETE FROM webhook_deliveries WHERE id > ? AND id <= ? AND created_at < ? AND next_at IS NULL',
  ),
}))

/** Consecutive failed attempts, over all events, after which a webhook is deactivated. */
export const MAX_CONSECUTIVE_FAILURES = 10

/** `last_failure_reason` of a webhook that failures deactivated. */
export const DEACTIVATION_REASON = `deactivated after ${MAX_CONSECUTIVE_FAILURES} consecutive failures`

/** Error in the history of deliveries that were pending when failures deactivated their webhook. */
export const ENDED_BY_FAILURES = `The webhook was ${DEACTIVATION_REASON}.`

/** Deliveries ended or examined in one transaction: a few milliseconds. */
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

/** Age at which finished deliveries are deleted from the history. */
const HISTORY_MS = days(30)

/**
 * Deletes secrets that no longer sign, the rows of deleted webhooks with their history, and finished deliveries older
 * than HISTORY_MS; ends pending deliveries of inactive webhooks. Returns the number of deleted deliveries of existing
 * webhooks. Called about every hour, one run at a time.
 */
export async function purgeWebhookHistory(app: App): Promise<number> {
  await app.commit.writeFromReserve((tx) => dropPreviousSecrets(tx, app.confirmedNow()))
  for (const { id } of sql(app.db).inactiveWithPending.all()) {
    const webhook = findWebhookById(app.db, id)
    if (webhook) await endPending(app, webhook)
  }
  for (const { id, uuid } of sql(app.db).deleted.all()) {
    while (!(await app.commit.writeFromReserve((tx) => deleteBatch(tx, id))));
    app.log.info({ webhook: formatUuid(uuid) }, 'deleted webhook removed with its history')
  }
  const before = app.confirmedNow() - HISTORY_MS
  let removed = 0
  for (let after = 0; ; ) {
    const rows = sql(app.db).slice.all(after, BATCH_SIZE)
    const last = rows.at(-1)
    if (!last || rows.every(({ createdAt }) => createdAt >= before)) return removed
    const from = after
    removed += await app.commit.writeFromReserve((tx) => sql(tx.db).deleteOld.run(from, last.id, before).changes)
    after = last.id
  }
}

/** True once nothing is left, including the webhook itself. */
function deleteBatch(tx: Tx, webhookId: number): boolean {
  const { changes } = sql(tx.db).deleteOfWebhook.run(webhookId, BATCH_SIZE)
  if (changes === BATCH_SIZE) return false
  sql(tx.db).deleteWebhook.run(webhookId)
  return true
}
