/** @module What state a webhook is in, why, and what to do; the events that it can get, in groups and in words. Pure. */
import type { Api, Webhook, WebhookDeliverySummary } from '#client/api.ts'
import type { State } from '../../parts/tone.ts'

export type WebhookState = 'active' | 'failing' | 'deactivated' | 'off'

/** How `last_failure_reason` begins once failures deactivated a webhook. */
const DEACTIVATED = 'deactivated after'

export function toWebhookState(
  webhook: Pick<Webhook, 'is_active' | 'failure_count' | 'last_failure_reason'>,
): WebhookState {
  if (webhook.is_active) return webhook.failure_count > 0 ? 'failing' : 'active'
  return webhook.last_failure_reason?.startsWith(DEACTIVATED) ? 'deactivated' : 'off'
}

export const WEBHOOK_STATES: Readonly<Record<WebhookState, State>> = {
  active: { word: 'Active', tone: 'good' },
  failing: { word: 'Failing', tone: 'warning' },
  deactivated: { word: 'Deactivated', tone: 'bad' },
  off: { word: 'Off', tone: 'neutral' },
}

export const DELIVERY_STATES: Readonly<Record<'pending' | 'delivered' | 'undeliverable', State>> = {
  pending: { word: 'Waiting', tone: 'waiting' },
  delivered: { word: 'Accepted', tone: 'good' },
  undeliverable: { word: 'Given up', tone: 'bad' },
}

const MAX_NAME_LENGTH = 80

/** What a webhook is called: its description, or its URL without query, which may have a secret. */
export function toWebhookName({ description, url }: Pick<Webhook, 'description' | 'url'>): string {
  if (description !== null) return description
  const { host, pathname } = new URL(url)
  const name = `${host}${pathname === '/' ? '' : pathname}`
  return name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}…` : name
}

/** The last attempt of a webhook: when, and whether it was accepted. Undefined: there was none. */
export function findLastAttempt({
  last_success_at: success,
  last_failure_at: failure,
}: Pick<Webhook, 'last_success_at' | 'last_failure_at'>):
  | { readonly at: string; readonly isAccepted: boolean }
  | undefined {
  if (success === null && failure === null) return undefined
  const isAccepted = failure === null || (success !== null && success >= failure)
  return { at: (isAccepted ? success : failure) ?? '', isAccepted }
}

/** The delivery whose attempt failed last, among the newest of a webhook. */
export const findLastFailure = (
  deliveries: readonly WebhookDeliverySummary[],
  { last_failure_at: at }: Pick<Webhook, 'last_failure_at'>,
): WebhookDeliverySummary | undefined =>
  deliveries.find((delivery) => delivery.attempted_at === at && delivery.event !== 'test') ??
  deliveries.find(
    ({ status, event, attempted_at }) => status !== 'delivered' && event !== 'test' && attempted_at !== null,
  )

type Reply = Pick<WebhookDeliverySummary, 'status_code' | 'error'>

/** Why a delivery failed, as the end of a sentence: "the last response was 502". */
export function toFailureWords({ status_code: code, error }: Reply): string {
  if (code !== null) return `the last response was ${code}`
  const [first] = (error ?? '').split(/(?<=\.) /)
  return first ? `there was no response: ${first.replace(/\.$/, '')}` : 'there was no response'
}

/** JSON on several lines; the text itself when it is not JSON. */
export function toPrettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** An event is attempted for about this time, so those that a failing webhook missed may be that much older. */
const MAX_RETRY_MS = 4 * 60 * 60 * 1000

/** Since when a webhook that fails may have missed events; undefined: it does not fail. */
export function toMissedStart({
  failing_since: since,
  created_at: created,
}: Pick<Webhook, 'failing_since' | 'created_at'>): string | undefined {
  if (since === null) return undefined
  const first = new Date(new Date(since).getTime() - MAX_RETRY_MS).toISOString()
  return first > created ? first : created
}

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
