/** @module Reads one delivery with its request: the payload and the headers of its last attempt. Sends nothing. */
import type { Actor, App } from '#features/core/app/app.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { requireBodyScopes } from './event-names.ts'
import { type Delivery, getDelivery } from './history.ts'
import { signingSecret } from './inbound-secret.ts'
import { buildPayload } from './payload.ts'
import { headersOf, signatureOf } from './signature.ts'
import { type FindWebhook, getWebhook, type Webhook } from './webhooks.ts'

/** A delivery with what was sent. */
export interface DeliveryRequest {
  readonly webhook: Webhook
  readonly delivery: Delivery
  /** The body as it is sent; null when the event is no longer kept. */
  readonly payload: string | null
  /**
   * The headers of the last attempt; null when there was none. The signature is left out when the secret that signed it
   * is no longer stored.
   */
  readonly headers: Readonly<Record<string, string>> | null
}

/**
 * A delivery with its request. Throws 404, and 403 when the actor may not read the mail that it carries.
 * @param find finds the webhook of `id`
 */
export function readDeliveryRequest(
  app: App,
  actor: Actor,
  id: string,
  deliveryId: string,
  find: FindWebhook = getWebhook,
): DeliveryRequest {
  const webhook = find(app.db, actor.accountId, id)
  const delivery = getDelivery(app.db, webhook, deliveryId)
  requireBodyScopes(actor, [delivery.event])
  const payload = readPayload(app, webhook, delivery)
  return {
    webhook,
    delivery,
    payload,
    headers: payload === null ? null : toHeaders(app, actor, webhook, delivery, payload),
  }
}

function readPayload(app: App, { accountId }: Webhook, { seq, payload }: Delivery): string | null {
  if (payload !== null) return payload
  const built = seq === null ? undefined : buildPayload(app, accountId, seq)
  return built ? JSON.stringify(built.body) : null
}

function toHeaders(
  app: App,
  actor: Actor,
  webhook: Webhook,
  delivery: Delivery,
  payload: string,
): Record<string, string> | null {
  const { event, attempts, attemptedAt } = delivery
  if (attemptedAt === null || attempts === 0) return null
  const isOldSecret = webhook.secretRotatedAt !== null && attemptedAt <= webhook.secretRotatedAt
  // A fresh signature lets its holder send the request once more; whoever may not change webhooks does not need it.
  const isHidden = isOldSecret || !hasScope(actor.scopes, 'webhooks:write')
  const signature = isHidden ? '' : signatureOf(signingSecret(app, webhook), Math.floor(attemptedAt / 1000), payload)
  const headers = headersOf({ event, attempt: attempts, signature }, app.config.compatHeaderPrefixes)
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''))
}
