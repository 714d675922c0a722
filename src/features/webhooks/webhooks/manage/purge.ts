/**
 * @module Purges old webhook history and deleted webhooks, and ends pending deliveries that an interrupted deactivation
 * left. Finds the events that webhooks still need, so that retention keeps them longer.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { endPending } from './pending.ts'
import { dropPreviousSecrets } from './secrets.ts'
import { findWebhookById } from './webhooks.ts'

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
const BATCH_SIZE = 200

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
