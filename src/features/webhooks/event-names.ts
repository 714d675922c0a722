/** @module The names of what a webhook can be told, and how a delivery can stand. */

/** What `events` of a webhook may name. `test` is none of them: it comes when it is asked for. */
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
] as const

export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

export const isWebhookEvent = (name: string): name is WebhookEvent => WEBHOOK_EVENTS.some((event) => event === name)

/** Name of a test event. */
export const TEST_EVENT = 'test'

/** How a delivery stands. Position = the stored code: only ever append. */
export const DELIVERY_STATUSES = ['pending', 'delivered', 'undeliverable'] as const

export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

const CODES = new Map<DeliveryStatus, number>(DELIVERY_STATUSES.map((status, code) => [status, code]))

export const deliveryStatusCode = (status: DeliveryStatus): number => {
  const code = CODES.get(status)
  if (code === undefined) throw new TypeError(`unknown delivery status ${status}`)
  return code
}

export const deliveryStatusName = (code: number): DeliveryStatus => {
  const status = DELIVERY_STATUSES[code]
  if (!status) throw new TypeError(`unknown delivery status code ${code}`)
  return status
}
