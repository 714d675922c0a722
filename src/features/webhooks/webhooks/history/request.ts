/** @module Reads one delivery with its request: the payload and the headers of its last attempt. Sends nothing. */
import type { Actor, App } from '#features/core/app/app.ts'
import { deriveEventUuid } from '#features/core/events/record.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { notFound } from '#platform/errors.ts'
import { requireBodyScopes } from '../event-names.ts'
import { openSigningSecrets } from '../manage/inbound-secret.ts'
import { createRequestHeaders } from '../manage/signature.ts'
import { type FindWebhook, getWebhook, type Webhook } from '../manage/webhooks.ts'
import { buildPayload, toMessageId } from '../payload/payload.ts'
import type { PayloadFormat } from '../payload/payload-format.ts'
import { type Delivery, getDelivery } from './history.ts'

/** A delivery with what was sent. */
export interface DeliveryRequest {
  readonly webhook: Webhook
  readonly delivery: Delivery
  /** The body as it is sent; null when the event is no longer kept. */
  readonly payload: string | null
  /**
   * The headers of the last attempt; null when there was none. The signatures are left out when the secret was replaced
   * since then.
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

function readPayload(app: App, { accountId, format }: Webhook, { seq, payload }: Delivery): string | null {
  if (payload !== null) return payload
  const built = seq === null ? undefined : buildPayload(app, accountId, seq, format)
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
  // A fresh signature lets its holder send the request once more; actors who may not change webhooks do not need it.
  const isHidden = isOldSecret || !hasScope(actor.scopes, 'webhooks:write')
  const id = toMessageId(app.keys, webhook.accountId, delivery)
  return createRequestHeaders(
    { id, event, attempt: attempts, at: attemptedAt, body: payload },
    isHidden ? undefined : openSigningSecrets(app, webhook),
    app.config.compatHeaderPrefixes,
  )
}

/**
 * The payload of an event of the feed, as a webhook of this format gets it. Throws 404 when there is no such event, or
 * none that the format has, and 403 when the actor may not read the mail that it carries.
 * @param seq position in the feed, as text
 */
export function readEventPayload(
  app: App,
  actor: Actor,
  seq: string,
  format: PayloadFormat = 'tassis',
): { readonly event: string; readonly event_id: string; readonly payload: string } {
  const { accountId } = actor
  const position = /^\d{1,15}$/.test(seq) ? Number(seq) : 0
  const built = buildPayload(app, accountId, position, format)
  if (!built) throw notFound('event_not_found', 'There is no event at this position that has a payload in this format.')
  requireBodyScopes(actor, [built.event])
  return {
    event: built.event,
    event_id: deriveEventUuid(app.keys, accountId, position),
    payload: JSON.stringify(built.body),
  }
}
