/** @module What becomes of an inbound email when its route's webhook was told of it, or could not be. In the transaction of the delivery's outcome. */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { parseUuid } from '#platform/ids.ts'
import { inboundCode } from './status.ts'

const sql = prepared((db) => ({
  // Of a damaged event nothing: whoever tells of it has to end it all the same.
  inboundId: db.prepare<{ id: string | null }, [number, number]>(
    "SELECT iif(json_valid(data), data ->> 'inbound_email_id', NULL) AS id FROM events WHERE account_id = ? AND seq = ?",
  ),
  delivered: db.prepare(
    `UPDATE inbound_emails SET status = CASE status WHEN ?1 THEN ?2 ELSE status END, error_message = CASE status WHEN ?5 THEN error_message END,
     webhook_delivered_at = coalesce(webhook_delivered_at, ?3), updated_at = ?3 WHERE uuid = ?4`,
  ),
  undeliverable: db.prepare(
    'UPDATE inbound_emails SET error_message = coalesce(error_message, ?1), updated_at = ?2 WHERE uuid = ?3 AND webhook_delivered_at IS NULL',
  ),
}))

/** The route's webhook took it: `received` becomes `delivered`, one that could not be parsed stays `failed`. */
export function inboundDelivered(_app: App, tx: Tx, accountId: number, seq: number, at: Millis): void {
  const uuid = inboundOf(tx, accountId, seq)
  if (uuid) sql(tx.db).delivered.run(inboundCode('received'), inboundCode('delivered'), at, uuid, inboundCode('failed'))
}

/** The route's webhook did not take it and is not asked again. The status stays: the message itself is here. */
export function inboundUndeliverable(app: App, tx: Tx, accountId: number, seq: number, error: string): void {
  const uuid = inboundOf(tx, accountId, seq)
  if (uuid) sql(tx.db).undeliverable.run(`The webhook of the route did not take it: ${error}`, app.eventTime(), uuid)
}

function inboundOf(tx: Tx, accountId: number, seq: number): Uint8Array | undefined {
  const id = sql(tx.db).inboundId.get(accountId, seq)?.id
  return typeof id === 'string' ? parseUuid(id) : undefined
}
