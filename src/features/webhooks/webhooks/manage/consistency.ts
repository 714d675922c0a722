/** @module Consistency rules of webhooks: their pending deliveries and their cursors. */
import { queryRule } from '#platform/db/consistency.ts'
import { deliveryStatusCode, deliveryStatusName } from '../event-names.ts'

export const pendingDeliveries = queryRule({
  rule: 'a webhook delivery has a next attempt time exactly while it is pending',
  sql: `SELECT id, webhook_id AS webhook, status, next_at FROM webhook_deliveries
    WHERE (status = ${deliveryStatusCode('pending')}) <> (next_at IS NOT NULL)`,
  describe: (r) =>
    `delivery ${r['id']} of webhook ${r['webhook']} is ${deliveryStatusName(Number(r['status']))}, with next attempt time ${r['next_at'] ?? 'none'}`,
})

export const webhookCursors = queryRule({
  rule: 'no webhook cursor is ahead of the events of its account',
  sql: `SELECT w.id, cursor_seq AS cursor, coalesce(last_seq, 0) AS last FROM webhooks w
    LEFT JOIN event_sequences s ON s.account_id = w.account_id WHERE cursor_seq > coalesce(last_seq, 0)`,
  describe: (r) => `webhook ${r['id']} is at event ${r['cursor']}, the last one is ${r['last']}`,
})
