/** @module The forms in which a webhook can get its events, and which events each form has. */
import { codesOf } from '#platform/db/codes.ts'
import { invalid } from '#platform/errors.ts'
import { WEBHOOK_EVENTS, type WebhookEvent } from '../event-names.ts'

/** The position is the stored code: only append. */
export const PAYLOAD_FORMATS = ['tassis', 'resend', 'postmark'] as const

export type PayloadFormat = (typeof PAYLOAD_FORMATS)[number]

const CODES = codesOf<PayloadFormat>('payload format', PAYLOAD_FORMATS)
export const payloadFormatCode = CODES.codeOf
export const payloadFormatName = CODES.nameOf

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

const EVENTS: Readonly<Record<PayloadFormat, readonly string[]>> = {
  tassis: WEBHOOK_EVENTS,
  resend: Object.values(RESEND_EVENTS),
  postmark: Object.keys(POSTMARK_RECORD_TYPES),
}

/** The events that a form has. */
export const collectPayloadEvents = (format: PayloadFormat): readonly string[] => EVENTS[format]

/** For the descriptions of fields. */
export const FORMAT_NOTE = `\`tassis\`: our own payloads. \`resend\`: those of Resend, for ${EVENTS.resend.join(', ')}. \`postmark\`: those of Postmark, for ${EVENTS.postmark.join(', ')}.`

/** Throws 422 when a form has no payload for one of the events. */
export function requireEventsInFormat(format: PayloadFormat, events: readonly string[]): void {
  const missing = events.find((event) => !EVENTS[format].includes(event))
  if (missing !== undefined)
    throw invalid(
      'events',
      `The format "${format}" has no payload for ${missing}; it has ${EVENTS[format].join(', ')}. Create another webhook with the format "tassis" for the rest.`,
      'event_not_in_format',
    )
}
