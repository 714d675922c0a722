/** @module Names of webhook events, and statuses of a delivery. */
import type { Actor } from '#features/core/app/app.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { codesOf } from '#platform/db/codes.ts'

/** Names that `events` of a webhook may contain. `test` is not among them, because it is sent only on request. */
export const WEBHOOK_EVENTS = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'failed',
  'rejected',
  'uncertain',
  'opened',
  'clicked',
  'complained',
  'unsubscribed',
  'email.inbound',
  'mailbox.message.received',
  'account.auto_paused',
  'insights.generated',
  'domain.records_lost',
  'domain.records_restored',
  'domain.unverified',
] as const

export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

export const isWebhookEvent = (name: string): name is WebhookEvent => WEBHOOK_EVENTS.some((event) => event === name)

/** Events that carry the bodies of received mail, with the scope that reads them. */
const BODY_SCOPES: ReadonlyMap<string, string> = new Map([
  ['email.inbound', 'inbound:read'],
  ['mailbox.message.received', 'mailboxes:read'],
])

/** For the descriptions of routes. */
export const BODY_SCOPES_NOTE = `${[...BODY_SCOPES].map(([event, scope]) => `\`${event}\` also needs the scope \`${scope}\``).join(', ')}, because it carries received mail.`

/** Throws 403 unless the actor may read the bodies that these events carry. */
export function requireBodyScopes(actor: Actor, events: readonly string[]): void {
  for (const event of events) {
    const scope = BODY_SCOPES.get(event)
    if (scope !== undefined) requireScope(actor, scope, `for ${event}, which carries received mail`)
  }
}

export const TEST_EVENT = 'test'

/** Statuses of a delivery. The position is the stored code, so only append. */
export const DELIVERY_STATUSES = ['pending', 'delivered', 'undeliverable'] as const

export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

const CODES = codesOf<DeliveryStatus>('delivery status', DELIVERY_STATUSES)
export const deliveryStatusCode = CODES.codeOf
export const deliveryStatusName = CODES.nameOf
