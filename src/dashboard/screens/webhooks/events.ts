/** @module The events that a webhook can get, in groups and in words. */
import type { Api } from '#client/api.ts'

export type DeliveryQuery = NonNullable<Parameters<Api['webhooks']['listDeliveries']>[1]>
type WebhookEvent = Exclude<NonNullable<DeliveryQuery['event']>, 'test'>

export const EVENT_EXPLANATIONS: Readonly<Record<WebhookEvent, string>> = {
  sent: 'the receiving server accepted the email',
  delivered: 'the same as sent, with the reply of the server',
  deferred: 'refused for now; another attempt follows',
  bounced: 'refused permanently',
  failed: 'could not be delivered in time',
  rejected: 'not sent, because the recipient is suppressed',
  uncertain: 'the connection broke before the final reply',
  opened: 'a recipient opened the email',
  clicked: 'a recipient clicked a link',
  complained: 'a recipient reported it as spam',
  unsubscribed: 'a recipient unsubscribed',
  'email.inbound': 'mail for an inbound route arrived',
  'mailbox.message.received': 'mail for an agent mailbox arrived',
  'account.auto_paused': 'sending was paused for this account',
  'insights.generated': 'there are new insights',
  'domain.records_lost': 'DNS records of a domain are missing',
  'domain.records_restored': 'the records are back',
  'domain.unverified': 'a domain stopped sending',
}

const RECIPIENTS: readonly WebhookEvent[] = ['opened', 'clicked', 'complained', 'unsubscribed']
const RECEIVED: readonly WebhookEvent[] = ['email.inbound', 'mailbox.message.received']

/** All events in the order of the list, so that a new one is never left out. */
export const EVENT_NAMES = Object.keys(EVENT_EXPLANATIONS) as readonly WebhookEvent[]

export const EVENT_GROUPS: readonly { readonly label: string; readonly events: readonly WebhookEvent[] }[] = [
  { label: 'Delivery', events: EVENT_NAMES.slice(0, EVENT_NAMES.indexOf('opened')) },
  { label: 'Recipients', events: RECIPIENTS },
  { label: 'Received mail', events: RECEIVED },
  { label: 'Account and domains', events: EVENT_NAMES.slice(EVENT_NAMES.indexOf('mailbox.message.received') + 1) },
]

/** Chosen at first for a new webhook: what most receivers act on. */
export const USUAL_EVENTS: readonly WebhookEvent[] = ['delivered', 'bounced', 'failed', 'complained', 'unsubscribed']

/** The name of a test event, in deliveries only. */
export const TEST_EVENT = 'test' satisfies DeliveryQuery['event']
