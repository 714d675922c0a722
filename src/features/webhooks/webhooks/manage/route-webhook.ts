/**
 * @module The webhook of an inbound route: a row of `webhooks` that its route creates, changes and deletes, with the
 * route's public id and a single event. It never appears under /v1/webhooks, but the dispatcher treats it like any
 * other.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { RouteFields } from '#features/receiving/route-rules/rows.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { insertWebhook, writeChange, writeDeletion } from './change.ts'
import { endPending } from './pending.ts'
import { ensureInboundSecret } from './secrets.ts'
import { findRouteWebhook } from './webhooks.ts'

/** The events of a route's webhook. */
export const ROUTE_EVENTS = ['email.inbound'] as const

const sql = prepareStatements((db) => ({
  // Marks a webhook as deactivated by its user, even if failures had deactivated it before.
  forgetOff: db.prepare('UPDATE webhooks SET off_by_failures = 0 WHERE id = ?'),
}))

/**
 * Makes the webhook of a route match the route: new URL, active or inactive. Without a URL nothing is posted: pending
 * deliveries are ended, and the history stays. Reactivation resets its failures; events from the inactive time are not
 * sent, but can be replayed. Call `beforeRouteChange` first.
 */
export function setRouteWebhook(
  app: App,
  tx: Tx,
  actor: Actor,
  { id: routeId, uuid }: { readonly id: number; readonly uuid: UuidBytes },
  { webhookUrl: url, ...route }: Pick<RouteFields, 'webhookUrl' | 'isActive'>,
): void {
  const before = findRouteWebhook(tx.db, routeId)
  const isActive = route.isActive && url !== null
  const { accountId } = actor
  if (before) {
    writeChange(app, tx, before, { url: url ?? before.url, events: ROUTE_EVENTS, isActive })
    if (!isActive) sql(tx.db).forgetOff.run(before.id)
  } else if (url !== null)
    insertWebhook(app, tx, { uuid, accountId, url, events: ROUTE_EVENTS, secret: new Uint8Array(), isActive, routeId })
  if (url !== null) ensureInboundSecret(app, tx, actor)
}

/** Ends the pending deliveries of an inactive route webhook, before the route is changed. */
export async function beforeRouteChange(app: App, routeId: number): Promise<void> {
  const webhook = findRouteWebhook(app.db, routeId)
  if (webhook) await endPending(app, webhook)
}

/** Deletes the webhook of a deleted route. */
export function deleteRouteWebhook(app: App, tx: Tx, routeId: number): void {
  const webhook = findRouteWebhook(tx.db, routeId)
  if (webhook) writeDeletion(app, tx, webhook.id)
}
