/**
 * @module Names of webhook events, statuses of a delivery, the forms in which a webhook can get its events, and which
 * events each form has.
 */
import type { Actor } from '#features/core/app/app.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { codesOf } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'

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

/** The position is the stored code: only append. */
export const PAYLOAD_FORMATS = ['tassis', 'resend', 'postmark'] as const

export type PayloadFormat = (typeof PAYLOAD_FORMATS)[number]

const FORMAT_CODES = codesOf<PayloadFormat>('payload format', PAYLOAD_FORMATS)
export const payloadFormatCode = FORMAT_CODES.codeOf
export const payloadFormatName = FORMAT_CODES.nameOf

/** Our events by the names of Resend. */
export const RESEND_EVENTS = {
  'email.sent': 'sent',
  'email.delivered': 'delivered',
  'email.delivery_delayed': 'deferred',
  'email.bounced': 'bounced',
  'email.failed': 'failed',
  'email.suppressed': 'rejected',
  'email.opened': 'opened',
  'email.clicked': 'clicked',
  'email.complained': 'complained',
  'email.received': 'email.inbound',
} as const satisfies Record<string, WebhookEvent>

/** The names of Resend by our events. */
export const RESEND_NAMES: ReadonlyMap<string, keyof typeof RESEND_EVENTS> = new Map(
  Object.entries(RESEND_EVENTS).map(([name, event]) => [event, name as keyof typeof RESEND_EVENTS]),
)

/** The `RecordType` of Postmark for each of our events. */
export const POSTMARK_RECORD_TYPES = {
  delivered: 'Delivery',
  bounced: 'Bounce',
  deferred: 'Bounce',
  failed: 'Bounce',
  opened: 'Open',
  clicked: 'Click',
  complained: 'SpamComplaint',
  unsubscribed: 'SubscriptionChange',
} as const satisfies { readonly [Event in WebhookEvent]?: string }

/** The events that a form has. */
export const PAYLOAD_EVENTS: Readonly<Record<PayloadFormat, readonly string[]>> = {
  tassis: WEBHOOK_EVENTS,
  resend: Object.values(RESEND_EVENTS),
  postmark: Object.keys(POSTMARK_RECORD_TYPES),
}

/** For the descriptions of fields. */
export const FORMAT_NOTE = `\`tassis\`: our own payloads. \`resend\`: those of Resend, for ${PAYLOAD_EVENTS.resend.join(', ')}. \`postmark\`: those of Postmark, for ${PAYLOAD_EVENTS.postmark.join(', ')}.`

/** Throws 422 when a form has no payload for one of the events. */
export function requireEventsInFormat(format: PayloadFormat, events: readonly string[]): void {
  const missing = events.find((event) => !PAYLOAD_EVENTS[format].includes(event))
  if (missing !== undefined)
    throw invalid(
      'events',
      `The format "${format}" has no payload for ${missing}; it has ${PAYLOAD_EVENTS[format].join(', ')}. Create another webhook with the format "tassis" for the rest.`,
      'event_not_in_format',
    )
}
