/** @module Reads the deliveries of one inbound email to the webhook of its route. Never writes. */
import type { Database } from 'bun:sqlite'
import { getInbound, type InboundEmail } from '#features/receiving/inbound/api/inbound-emails.ts'
import { type Delivery, getDelivery } from '#features/webhooks/webhooks/history/history.ts'
import { findRouteWebhook, type Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  event: db.prepare<{ routeId: number; seq: number }, [number]>(
    'SELECT route_id AS routeId, event_seq AS seq FROM inbound_emails WHERE id = ? AND route_id IS NOT NULL AND event_seq IS NOT NULL',
  ),
  page: db.prepare<{ uuid: Uint8Array }, [number, number, number, number]>(
    'SELECT uuid FROM webhook_deliveries INDEXED BY webhook_deliveries_seq WHERE webhook_id = ? AND seq = ? ORDER BY id DESC LIMIT ? OFFSET ?',
  ),
  count: db.prepare<{ n: number }, [number, number]>(
    'SELECT COUNT(*) AS n FROM webhook_deliveries INDEXED BY webhook_deliveries_seq WHERE webhook_id = ? AND seq = ?',
  ),
}))

interface EmailDeliveries {
  readonly deliveries: readonly Delivery[]
  readonly total: number
  /** The webhook of the route; undefined: no delivery can exist. */
  readonly webhook: Webhook | undefined
}

/**
 * A page of the deliveries of the account's inbound email: one, and another for each replay, newest first. Throws 404
 * for an unknown email. Empty when no route matched, or the route has no URL or was deleted.
 * @param id public id of the inbound email
 */
export function listEmailDeliveries(
  db: Database,
  accountId: number,
  id: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): EmailDeliveries {
  const email: InboundEmail = getInbound(db, accountId, id)
  const event = sql(db).event.get(email.id)
  const webhook = event ? findRouteWebhook(db, event.routeId) : undefined
  if (!event || !webhook) return { deliveries: [], total: 0, webhook: undefined }
  const uuids = sql(db).page.all(webhook.id, event.seq, limit, offset)
  return {
    deliveries: uuids.map(({ uuid }) => getDelivery(db, webhook, uuid)),
    total: sql(db).count.get(webhook.id, event.seq)?.n ?? 0,
    webhook,
  }
}
