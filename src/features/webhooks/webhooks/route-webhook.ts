/**
 * @module The webhook of an inbound route: a row of `webhooks` that its route makes, changes and ends, with the route's public id and one event.
 * It is never seen under /v1/webhooks. Everything that tells webhooks tells it too.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { readLastSeq } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import {
  DEACTIVATED_REASON,
  DELETED_REASON,
  endPendingBeforeChange,
  tryEndPending,
  writeChange,
  writeDeletion,
} from './change.ts'
import { ensureInboundSecret } from './inbound-secret.ts'
import { findRouteWebhook } from './webhooks.ts'

/** What a route's webhook is told. */
export const ROUTE_EVENTS = ['email.inbound'] as const

const sql = prepareStatements((db) => ({
  insert: db.prepare<
    { id: number },
    [UuidBytes, number, string, string, Uint8Array, number, number, number, number, number]
  >(
    `INSERT INTO webhooks (uuid, account_id, url, events, secret, cursor_seq, created_at, updated_at, is_active, route_id)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  ),
  // Off by its user, whatever it was before.
  forgetOff: db.prepare('UPDATE webhooks SET off_by_failures = 0 WHERE id = ?'),
}))

/** The route as its webhook needs it. */
export interface RouteTarget {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  /** Null: nobody is told; what waits is ended, the history stays. */
  readonly url: string | null
  readonly isActive: boolean
}

/**
 * Makes the webhook of a route what the route says it is: told, told elsewhere, or off. Failures are forgotten when it comes on again: what happened
 * while it was off is not told, but can be replayed. After `beforeRouteChange`, before `afterRouteChange`.
 */
export function setRouteWebhook(app: App, tx: Tx, actor: Actor, route: RouteTarget): void {
  const before = findRouteWebhook(tx.db, route.id)
  const isActive = route.isActive && route.url !== null
  if (before) {
    writeChange(app, tx, before, { url: route.url ?? before.url, events: ROUTE_EVENTS, isActive })
    if (!isActive) sql(tx.db).forgetOff.run(before.id)
  } else if (route.url !== null) insertWebhook(app, tx, route, route.url)
  if (route.url !== null) ensureInboundSecret(app, tx, actor)
}

function insertWebhook(app: App, tx: Tx, { id, uuid, accountId, isActive }: RouteTarget, url: string): void {
  const now = app.eventTime()
  const created = sql(tx.db).insert.get(
    uuid,
    accountId,
    url,
    JSON.stringify(ROUTE_EVENTS),
    new Uint8Array(),
    readLastSeq(tx.db, accountId),
    now,
    now,
    isActive ? 1 : 0,
    id,
  )
  if (created) tx.afterCommit(() => app.webhookChanged.emit({ webhookId: created.id }))
}

/** Ends what waits for a route's webhook that is off, before the route is changed. */
export async function beforeRouteChange(app: App, routeId: number): Promise<void> {
  const webhook = findRouteWebhook(app.db, routeId)
  if (webhook) await endPendingBeforeChange(app, webhook)
}

/** Ends what waits for a route's webhook that the change has switched off. Never throws. */
export async function afterRouteChange(app: App, routeId: number): Promise<void> {
  const webhook = findRouteWebhook(app.db, routeId)
  if (webhook && !webhook.isActive) await tryEndPending(app, webhook.id, DEACTIVATED_REASON)
}

/** Ends the webhook of a route that is deleted. Gives its row id for `endRouteWebhook`; undefined: it had none. */
export function deleteRouteWebhook(app: App, tx: Tx, routeId: number): number | undefined {
  const webhook = findRouteWebhook(tx.db, routeId)
  if (webhook) writeDeletion(app, tx, webhook.id)
  return webhook?.id
}

/** Ends what waited for the webhook of a route that was deleted. Never throws. */
export async function endRouteWebhook(app: App, webhookId: number | undefined): Promise<void> {
  if (webhookId !== undefined) await tryEndPending(app, webhookId, DELETED_REASON)
}
